// Differences between the SwiGLUs of model families.
#pragma once

namespace sluice::ops {

/// Form of a SwiGLU. Without a limit silu(gate) * up, or gelu(gate) * up. With a limit, as in gpt-oss: (up' + 1) *
/// gate' * sigmoid(slope * gate') with gate' = min(gate, limit) and up' clamped to [-limit, limit]; no gradient
/// passes a number that was clamped.
struct Gating {
  float limit = 0;  ///< limit at which gate and up are clamped; 0: none
  float slope = 1;  ///< factor of the sigmoid's argument; used with a limit alone
  /// whether columns of a joint matrix alternate, gate 0, up 0, gate 1, up 1; else all gates come first
  bool interleaved = false;
  /// Whether the gate's function is GELU, by its formula with tanh; used without a limit.
  bool is_gelu = false;

  [[nodiscard]] bool has_limit() const { return limit > 0; }
};

}  // namespace sluice::ops
