// An expert that every token passes besides the routed ones, or several of them as one; where the model has
// it with a gate, whose sigmoid weighs it. Computed by decoder/mlp_blocks.
#pragma once

#include "model/blocks/swiglu.hpp"

namespace sluice::blocks::shared_expert {

/// Weight of the gate, if there is one.
inline constexpr std::string_view kGate = "mlp.shared_expert_gate.weight";

/// Tensor names: `shared_expert` for one with a gate, `shared_experts` for those without.
[[nodiscard]] const SwigluNames& names(const ModelConfig& config);
[[nodiscard]] bool is_in(const ModelConfig& config);
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config);

}  // namespace sluice::blocks::shared_expert
