// An expert that every token passes besides the routed ones, or several of them as one; where the model has it with a gate,
// whose sigmoid weighs it. Computed by decoder/mlp_blocks.
#pragma once

#include "model/blocks/swiglu.hpp"

namespace sluice::blocks::shared_expert {

inline constexpr std::string_view kGate = "mlp.shared_expert_gate.weight";  ///< if it has a gate

/// Those with a gate are called `shared_expert`, those without one `shared_experts`.
[[nodiscard]] const SwigluNames& names(const ModelConfig& config);
[[nodiscard]] bool is_in(const ModelConfig& config);
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config);

}  // namespace sluice::blocks::shared_expert
