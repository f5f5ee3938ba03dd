// Routed experts of a layer, each an MLP, in fused tensors. Computed by ops/experts.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::experts {

inline constexpr std::string_view kGateUpProj = "mlp.experts.gate_up_proj";
/// Projection that experts without a gate have in its place.
inline constexpr std::string_view kUpProj = "mlp.experts.up_proj";
inline constexpr std::string_view kDownProj = "mlp.experts.down_proj";
/// Biases of the experts, [experts, width of the product], if the model has them; then it has gates.
inline constexpr std::string_view kGateUpBias = "mlp.experts.gate_up_proj_bias";
inline constexpr std::string_view kDownBias = "mlp.experts.down_proj_bias";

/// Projections to the width of experts that is not the hidden size, and back from it, if the model has them.
inline constexpr std::string_view kLatentIn = "mlp.fc1_latent_proj.weight";
inline constexpr std::string_view kLatentOut = "mlp.fc2_latent_proj.weight";

/// Name of the projection to the experts' inner width.
[[nodiscard]] inline std::string_view inner_proj(const ModelConfig& config) {
  return config.has_gates() ? kGateUpProj : kUpProj;
}

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
/// Activations of the block, without the memory of the token exchange.
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

}  // namespace sluice::blocks::experts
