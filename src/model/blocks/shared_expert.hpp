// Shared expert: an expert that every token passes through besides the routed ones, or several as one; some
// models weigh it by the sigmoid of a gate. Computed by decoder/mlp_blocks.
#pragma once

#include "model/blocks/swiglu.hpp"

namespace sluice::blocks::shared_expert {

/// Name of the shared expert's gate, if it has one.
inline constexpr std::string_view kGate = "mlp.shared_expert_gate.weight";

/// Names of the tensors: `shared_expert` with a gate, `shared_experts` without.
[[nodiscard]] const SwigluNames& names(const ModelConfig& config);
[[nodiscard]] bool is_in(const ModelConfig& config);
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config);

}  // namespace sluice::blocks::shared_expert
