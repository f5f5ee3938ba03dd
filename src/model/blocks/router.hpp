// Top-k router of a mixture of experts: scores of all experts, by a softmax or by sigmoids, and the choice
// among them. Computed by ops/router.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::router {

/// Name of the router's weight [experts, hidden].
[[nodiscard]] std::string_view weight_name(const ModelConfig& config);
/// Name of the router's bias [experts], if the model has it.
inline constexpr std::string_view kBias = "mlp.router.bias";
/// Name of the correction bias, a float32 buffer [experts] or [1, experts], if the model has it.
inline constexpr std::string_view kCorrectionBias = "mlp.gate.e_score_correction_bias";

/// Factors of the normalised tokens that a router scales [hidden], if it does.
inline constexpr std::string_view kInputScale = "mlp.gate.scale";
/// Factors of the weights of each expert [experts], if the model has them.
inline constexpr std::string_view kExpertScales = "mlp.gate.per_expert_scale";

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

}  // namespace sluice::blocks::router
