#include "model/families/nemotron_h.hpp"

#include "model/blocks/embedding_and_head.hpp"
#include "model/blocks/experts.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/blocks/norms.hpp"
#include "model/common_config.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {
namespace {

constexpr const char* kLayerPattern = "hybrid_override_pattern";

/// A kind of layer: its letter in patterns, its names in lists, and its blocks.
struct LayerKind {
  char letter;
  std::array<std::string_view, 2> names;
  AttentionKind mixer;
  MlpKind mlp;
};
constexpr std::array kLayerKinds{
    LayerKind{'M', {"mamba", "linear_attention"}, AttentionKind::kMamba2, MlpKind::kNone},
    LayerKind{'*', {"attention", "full_attention"}, AttentionKind::kFull, MlpKind::kNone},
    LayerKind{'-', {"mlp", "mlp"}, AttentionKind::kNone, MlpKind::kDense},
    LayerKind{'E', {"moe", "moe"}, AttentionKind::kNone, MlpKind::kMoe}};

/// Reads the kinds of all layers as a pattern of letters: from a list of names, or else from a pattern.
std::string read_layer_pattern(const ConfigReader& config) {
  std::string pattern;
  if (config.is_null("layer_types")) config.refuse("layer_types", "a list of kinds, or none");
  for (const char* key : {"layer_types", "layers_block_type"}) {
    if (!config.has(key)) continue;
    for (const std::string& name : config.texts({key})) {
      const auto kind = std::ranges::find_if(
          kLayerKinds, [&](const LayerKind& each) { return std::ranges::count(each.names, name) > 0; });
      if (kind == kLayerKinds.end())
        config.refuse(key, "'mamba', 'attention', 'mlp' or 'moe' for each layer");
      pattern += kind->letter;
    }
    if (pattern.empty()) config.refuse(key, "a kind for each layer");
    return pattern;
  }
  pattern = config.text({kLayerPattern}, "ME*-");
  if (pattern.empty() || pattern.find_first_not_of("M*-E") != std::string::npos)
    config.refuse(kLayerPattern, "a text of M, *, - and E, one for each layer");
  return pattern;
}

void refuse_uncomputed(const ConfigReader& config) {
  if (config.has("sliding_window")) config.refuse("sliding_window", "null");
  if (config.text({"mlp_hidden_act"}, "relu2") != "relu2") config.refuse("mlp_hidden_act", "'relu2'");
  if (config.text({"mamba_hidden_act"}, "silu") != "silu") config.refuse("mamba_hidden_act", "'silu'");
  for (const char* key :
       {"mlp_bias", "use_bias", "mamba_proj_bias", "residual_in_fp32", "tie_word_embeddings"})
    if (config.boolean({key}, false)) config.refuse(key, "false");
  if (config.number({"hidden_dropout"}, 0.0) != 0) config.refuse("hidden_dropout", "0");
}

Mamba2Config read_mamba_heads(const ConfigReader& config) {
  Mamba2Config mamba{.heads = config.integer({"mamba_num_heads"}, 128),
                     .head_dim = config.integer({"mamba_head_dim"}, 64),
                     .groups = config.integer({"mamba_n_groups", "n_groups"}, 8),
                     .state_dim = config.integer({"ssm_state_size"}, 128),
                     .conv_kernel_size = config.integer({"mamba_d_conv", "conv_kernel"}, 4, 1, 1024),
                     .conv_bias = config.boolean({"mamba_conv_bias", "use_conv_bias"}, true)};
  if (mamba.heads % mamba.groups != 0) config.refuse("n_groups", "a divisor of mamba_num_heads");
  read_time_step_limit(config, config.contains("mamba_dt_limit") ? "mamba_dt_limit" : "time_step_limit",
                       mamba);
  return mamba;
}

void read_ungated_experts(const ConfigReader& config, ModelConfig& model) {
  read_expert_config(config, "moe_intermediate_size", model);
  model.expert_latent_size = config.with(Nulls::kAbsent).integer({"moe_latent_size"}, 0);
  model.shared_expert_intermediate_size = config.integer({"moe_shared_expert_intermediate_size"});
  model.experts_before_router = true;
  read_sigmoid_router(config, {.normalize = true, .groups = 1, .chosen_groups = 1, .scale = 1.0}, model);
}

void publish_mixer(const ModelConfig& config, int layer, ParameterManifest& manifest) {
  for (const BlockTensor& tensor : layer_tensors(config, layer)) {
    const std::string_view name = tensor.name;
    const bool is_norm = name == blocks::norms::kInput || name == blocks::norms::kPostAttention;
    const bool is_latent = name == blocks::experts::kLatentIn || name == blocks::experts::kLatentOut;
    if (!is_norm && !is_latent && config.has_experts(layer)) continue;  // whose spelling the manifest knows
    const std::string own = is_norm ? "norm.weight" : "mixer" + std::string(name.substr(name.find('.')));
    publish_as(layer_tensor_name(layer, own), {layer_tensor_name(layer, name)}, manifest);
  }
}

}  // namespace

ModelConfig read_nemotron_h_config(const ConfigReader& config) {
  refuse_uncomputed(config);
  const std::string pattern = read_layer_pattern(config);
  ModelConfig model = read_common_config(config, {.layers = std::ssize(pattern),
                                                  .key_value_heads = 8,
                                                  .head_dim = 128,
                                                  .rms_norm_eps_key = "layer_norm_epsilon",
                                                  .rms_norm_eps = 1e-5,
                                                  .rotary_by_kind = true});  // it has none
  model.padding_token = -1;  // the row of the embedding is one like others
  model.unrounded_norms = true;
  model.mlp_activation = MlpActivation::kSquaredRelu;
  for (std::size_t layer = 0; layer < pattern.size(); ++layer) {
    const LayerKind& kind = *std::ranges::find(kLayerKinds, pattern[layer], &LayerKind::letter);
    model.attention[layer] = kind.mixer;
    model.layers[layer] = kind.mlp;
  }
  if (pattern.find('M') != std::string::npos) model.mamba2 = read_mamba_heads(config);
  if (pattern.find('-') != std::string::npos) model.intermediate_size = config.integer({"intermediate_size"});
  if (pattern.find('E') != std::string::npos) read_ungated_experts(config, model);
  return model;
}

ParameterManifest describe_nemotron_h(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  manifest.set_published_experts(kNemotronExperts);
  manifest.set_tree_experts(kNemotronExperts);
  manifest.set_renamed_prefix("backbone.");
  manifest.set_refused_by_peft(".out_proj.weight");
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  publish_as("model.embeddings.weight", {std::string(blocks::embedding_and_head::kEmbedding)}, manifest);
  for (int layer = 0; layer < config.layer_count(); ++layer) publish_mixer(config, layer, manifest);
  publish_as("model.norm_f.weight", {std::string(blocks::norms::kFinal)}, manifest);
  return manifest;
}

}  // namespace sluice
