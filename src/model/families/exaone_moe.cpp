#include "model/families/exaone_moe.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <cstddef>
#include <string>

namespace sluice {
namespace {

constexpr const char* kPattern = "sliding_window_pattern";

/// Reads which layers have a window where layer_types does not say it. A number n: all but each n-th. A text such as
/// "LLLG", as it was published: those at an L of its repetitions, and never the last layer.
void read_pattern(const ConfigReader& config, ModelConfig& model) {
  if (config.is_null("sliding_window"))
    config.refuse("sliding_window",
                  "an integer, or null with 'full_attention' in layer_types for each layer");
  std::string pattern;
  if (config.holds_text(kPattern)) {
    pattern = config.text({kPattern});
    if (pattern.empty() || pattern.find_first_not_of("LG") != std::string::npos)
      config.refuse(kPattern, "an integer, or a text of L and G such as \"LLLG\"");
  } else {
    pattern.assign(static_cast<std::size_t>(config.integer({kPattern}, 4, 1, 1024) - 1), 'L').push_back('G');
  }
  for (std::size_t layer = 0; layer < model.attention.size(); ++layer)
    if (pattern[layer % pattern.size()] == 'L') model.attention[layer] = AttentionKind::kSliding;
  if (config.holds_text(kPattern)) model.attention.back() = AttentionKind::kFull;
}

}  // namespace

ModelConfig read_exaone_moe_config(const ConfigReader& config) {
  ModelConfig model =
      read_common_config(config, {.key_value_heads = 32, .padding_token = 0, .rms_norm_eps = 1e-5});
  model.query_key_norm = QueryKeyNorm::kPerHead;
  model.prediction_layers = read_prediction_layers(config, "num_nextn_predict_layers", 0);
  if (!config.has("layer_types")) read_pattern(config, model);
  constexpr std::int64_t kWindow = 4096;
  read_windows(config, kWindow, model);
  if (!config.is_null("sliding_window")) {
    model.sliding_rotary = model.rotary;
    model.rotary.dim = 0;
  }
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  read_shared_experts(config, 1, model);
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true, .scale = 2.5}, model);
  read_first_dense_layers(config, 1, model);
  return model;
}

ParameterManifest describe_exaone_moe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kExaoneExperts);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
