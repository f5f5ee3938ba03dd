// Differences between the SwiGLUs of model families.
#pragma once

namespace sluice::ops {

/// Without a limit silu(gate) * up. With one gate' = min(gate, limit) and up' = up within [-limit, limit]
/// make (up' + 1) * gate' * sigmoid(slope * gate'), as in gpt-oss; no gradient passes a number that was cut
/// off.
struct Gating {
  float limit = 0;  ///< limit at which gate and up are clamped; 0: none
  float slope = 1;  ///< read with a limit alone
  bool interleaved =
      false;  ///< columns of a joint matrix are gate 0, up 0, gate 1, up 1 and so on, not gates, then ups

  [[nodiscard]] bool has_limit() const { return limit > 0; }
};

}  // namespace sluice::ops
