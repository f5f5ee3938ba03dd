// Differences between the activations of MLPs of model families.
#pragma once

#include <cstdint>

namespace sluice::ops {

/// Function between the projections of an MLP. kSilu, kGeluTanh: silu(gate) * up, or gelu(gate) * up, GELU by its
/// formula with tanh. kSquaredRelu: relu(up)^2, without a gate.
enum class Activation : std::uint8_t { kSilu, kGeluTanh, kSquaredRelu };

/// What a limit clamps, beside up' = up clamped to [-limit, limit]. kGate, as in gpt-oss: (up' + 1) * gate' *
/// sigmoid(slope * gate') with gate' = min(gate, limit). kSilu, as in Step 3.5: up' * min(silu(gate), limit).
enum class Clamp : std::uint8_t { kGate, kSilu };

/// Form of an MLP's activation. kSilu alone may have a limit; no gradient passes a number that was clamped. Without
/// a gate, what stands for it is the up projection itself.
struct Gating {
  float limit = 0;  ///< limit at which the gate or its silu, and up, are clamped; 0: none
  float slope = 1;  ///< factor of the sigmoid's argument; used with a limit of gates alone
  /// Whether columns of a joint matrix alternate, gate 0, up 0, gate 1, up 1; else all gates come first.
  bool interleaved = false;
  Activation activation = Activation::kSilu;
  Clamp clamp = Clamp::kGate;  ///< what a limit clamps

  [[nodiscard]] bool has_gate() const { return activation != Activation::kSquaredRelu; }
  /// Number of projections to the inner width: gate and up, or up alone.
  [[nodiscard]] int projections() const { return has_gate() ? 2 : 1; }
  [[nodiscard]] bool has_limit() const { return limit > 0; }
};

}  // namespace sluice::ops
