#include "model/families/qwen3_next.hpp"

#include "model/blocks/gated_delta_net.hpp"
#include "model/common_config.hpp"
#include "model/families/qwen3_5.hpp"
#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

namespace sluice {
namespace {

/// The projections of a layer's gated delta net are published as two tensors, whose rows are grouped by key
/// head: of each head q, k, and its value heads' v and z; b and a.
void join_projections(const LinearAttentionConfig& linear, int layer, ParameterManifest& manifest) {
  namespace names = blocks::gated_delta_net;
  const auto name = [&](std::string_view tensor) { return fmt::format("model.layers.{}.{}", layer, tensor); };
  const std::int64_t heads = linear.key_heads, key = linear.key_head_dim;
  const std::int64_t values = linear.value_heads / heads, value = values * linear.value_head_dim;
  const std::string qkv = name(names::kInProjQkv), z = name(names::kInProjZ);
  const std::string b = name(names::kInProjB), a = name(names::kInProjA);
  manifest.add_joined(
      name("linear_attn.in_proj_qkvz.weight"), heads,
      std::array<JoinedRows, 4>{
          {{qkv, 0, key}, {qkv, heads * key, key}, {qkv, 2 * heads * key, value}, {z, 0, value}}});
  manifest.add_joined(name("linear_attn.in_proj_ba.weight"), heads,
                      std::array<JoinedRows, 2>{{{b, 0, values}, {a, 0, values}}});
}

}  // namespace

ModelConfig read_qwen3_next_config(const ConfigReader& config) {
  ModelConfig model = read_hybrid_config(config, 2);
  model.intermediate_size = config.integer({"intermediate_size"});
  read_expert_config(config, "moe_intermediate_size", model);
  model.shared_expert_intermediate_size = config.integer({"shared_expert_intermediate_size"});
  model.shared_expert_gate = true;
  model.router.normalize = config.boolean({"norm_topk_prob"}, true);
  read_sparse_layers(config, model);
  return model;
}

ParameterManifest describe_qwen3_next(const ModelConfig& config, DType dtype) {
  ParameterManifest manifest = describe_decoder(config, dtype);
  for (int layer = 0; layer < config.layer_count(); ++layer)
    if (config.attention[static_cast<std::size_t>(layer)] == AttentionKind::kLinear)
      join_projections(config.linear_attention, layer, manifest);
  manifest.add_foreign_part(ForeignPart::kMultiTokenPrediction);
  return manifest;
}

}  // namespace sluice
