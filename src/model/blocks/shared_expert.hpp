// An expert that every token passes besides the routed ones, weighed by the sigmoid of its gate. Computed by
// decoder/mlp_blocks.
#pragma once

#include "model/blocks/swiglu.hpp"

namespace sluice::blocks::shared_expert {

inline constexpr SwigluNames kNames{"mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight",
                                    "mlp.shared_expert.down_proj.weight"};
inline constexpr std::string_view kGate = "mlp.shared_expert_gate.weight";

[[nodiscard]] bool is_in(const ModelConfig& config);
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config);

}  // namespace sluice::blocks::shared_expert
