#include "model/families/ernie4_5_moe.hpp"

#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <cstddef>

namespace sluice {
namespace {

/// Reads which layers have experts, as Ernie4_5_MoeDecoderLayer decides it.
void read_sparse_range(const ConfigReader& config, ModelConfig& model) {
  const std::int64_t interval = config.integer({"moe_layer_interval"}, 1);
  const std::int64_t first = config.integer({"moe_layer_start_index"}, 1, 0);
  const std::int64_t last = config.integer({"moe_layer_end_index"}, -1, -1);
  for (std::int64_t layer = first; layer < model.layer_count(); ++layer)
    if ((layer + 1) % interval == 0 && (last == -1 || layer <= last))
      model.layers[static_cast<std::size_t>(layer)] = MlpKind::kMoe;
}

}  // namespace

ModelConfig read_ernie4_5_moe_config(const ConfigReader& config) {
  ModelConfig model = read_common_config(config, {.key_value_heads = 4,
                                                  .padding_token = 0,
                                                  .rms_norm_eps = 1e-5,
                                                  .rope_theta = 5e5,
                                                  .tie_word_embeddings = true});
  if (config.boolean({"use_bias"}, false)) config.refuse("use_bias", "false");
  model.rotary.interleaved = true;
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size =
      model.expert_intermediate_size * config.integer({"moe_num_shared_experts"}, 2, 0, 1024);
  model.router = {.has_correction_bias = true,
                  .correction_bias_is_row = true,
                  .normalize = true,
                  .least_sum = config.positive({"moe_norm_min"}, 1e-12)};
  read_sparse_range(config, model);
  return model;
}

ParameterManifest describe_ernie4_5_moe(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kErnieExperts);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
