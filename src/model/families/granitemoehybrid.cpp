#include "model/families/granitemoehybrid.hpp"

#include "model/common_config.hpp"
#include "model/families/granitemoe.hpp"
#include "model/manifest_builder.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace sluice {
namespace {

/// Reads which layers have Mamba-2 and which attention, as published files name them, or as transformers 5 does.
void read_mixers(const ConfigReader& config, ModelConfig& model) {
  std::ranges::fill(model.attention, AttentionKind::kMamba2);
  const auto types = read_layer_kinds(config, "layer_types", model);
  for (std::size_t layer = 0; types && layer < types->size(); ++layer) {
    const std::string& type = (*types)[layer];
    if (type == "attention" || type == "full_attention")
      model.attention[layer] = AttentionKind::kFull;
    else if (type != "mamba" && type != "linear_attention")
      config.refuse("layer_types", "'mamba' or 'attention' for each layer");
  }
}

Mamba2Config read_mamba2(const ConfigReader& config, const ModelConfig& model) {
  Mamba2Config mamba{.heads = config.integer({"mamba_n_heads"}, 128),
                     .groups = config.integer({"mamba_n_groups"}, 1),
                     .state_dim = config.integer({"mamba_d_state"}, 256),
                     .conv_kernel_size = config.integer({"mamba_d_conv"}, 4, 1, 1024),
                     .conv_bias = config.boolean({"mamba_conv_bias"}, true)};
  const std::int64_t width = config.integer({"mamba_expand"}, 2) * model.hidden_size;
  if (mamba.heads > width || width % mamba.heads != 0)
    config.refuse("mamba_n_heads", "a divisor of mamba_expand * hidden_size");
  mamba.head_dim = width / mamba.heads;
  const bool is_auto = config.holds_text("mamba_d_head") && config.text({"mamba_d_head"}) == "auto";
  if (!is_auto && config.integer({"mamba_d_head"}, mamba.head_dim) != mamba.head_dim)
    config.refuse("mamba_d_head", "\"auto\", or mamba_expand * hidden_size / mamba_n_heads");
  if (mamba.heads % mamba.groups != 0) config.refuse("mamba_n_groups", "a divisor of mamba_n_heads");
  if (config.boolean({"mamba_proj_bias"}, false)) config.refuse("mamba_proj_bias", "false");
  static_cast<void>(config.integer({"mamba_chunk_size"}, 256));  // which changes no number
  read_time_step_limit(config, "time_step_limit", mamba);
  return mamba;
}

}  // namespace

ModelConfig read_granitemoehybrid_config(const ConfigReader& config) {
  const bool has_experts = config.integer({"num_local_experts", "num_experts"}, 8, 0) > 0;
  ModelConfig model = read_granite_config(config);
  const ConfigReader with_null = config.with(Nulls::kAbsent);
  if (with_null.text({"position_embedding_type"}, "nope") != "rope") model.rotary.dim = 0;
  read_mixers(config, model);
  model.mamba2 = read_mamba2(config, model);
  const std::int64_t shared = config.integer({"shared_intermediate_size"}, 1024);
  if (!has_experts) {
    model.intermediate_size = shared;
    return model;
  }
  read_granite_experts(config, model);
  model.shared_expert_intermediate_size = shared;
  return model;
}

ParameterManifest describe_granitemoehybrid(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_granitemoe(config, dtype);
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    const blocks::SwigluNames& names = mlp_of_all_tokens(config, layer);
    const auto name = [&](std::string_view tensor) { return layer_tensor_name(layer, tensor); };
    publish_as(name("shared_mlp.input_linear.weight"), {name(names.gate_proj), name(names.up_proj)},
               manifest);
    publish_as(name("shared_mlp.output_linear.weight"), {name(names.down_proj)}, manifest);
  }
  return manifest;
}

}  // namespace sluice
