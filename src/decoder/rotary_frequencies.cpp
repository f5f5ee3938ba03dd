#include "decoder/rotary_frequencies.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <torch/types.h>

#include <numbers>

namespace sluice {
namespace {

// Repeats the operations of transformers one by one: another order would round differently.

/// Positions per radian of each pair, without any scaling: theta^(2i/dim).
at::Tensor periods(const RotaryConfig& rotary) {
  const at::Tensor exponents = at::arange(0, rotary.dim, 2, at::kLong).to(at::kFloat) / rotary.dim;
  return at::pow(rotary.theta, exponents);
}

/// YaRN: fast pairs keep their frequency, slow ones turn `factor` times slower, and between them the two are
/// blended.
at::Tensor yarn_frequencies(const RotaryConfig& rotary) {
  const at::Tensor line =
      (at::arange(rotary.dim / 2, at::kFloat) - rotary.blend_begin) / (rotary.blend_end - rotary.blend_begin);
  const at::Tensor kept = 1 - at::clamp(line, 0, 1);
  const at::Tensor period = periods(rotary);
  return 1.0 / (rotary.factor * period) * (1 - kept) + 1.0 / period * kept;
}

/// Llama 3's: as YaRN's, but the blend goes by the number of turns, not by the number of the pair.
at::Tensor llama3_frequencies(const RotaryConfig& rotary) {
  const at::Tensor plain = 1.0 / periods(rotary);
  const at::Tensor lengths = plain.reciprocal() * (2 * std::numbers::pi);  // positions per turn
  const at::Tensor is_slow = lengths > rotary.original_length / rotary.few_turns,
                   is_fast = lengths < rotary.original_length / rotary.many_turns;
  const at::Tensor ends = at::where(is_slow, plain / rotary.factor, plain);
  const at::Tensor kept = (lengths.reciprocal() * rotary.original_length - rotary.few_turns) /
                          (rotary.many_turns - rotary.few_turns);
  return at::where(at::logical_or(is_slow, is_fast), ends, (1 - kept) * ends / rotary.factor + kept * ends);
}

/// Frequencies of all pairs, by the scaling.
at::Tensor frequencies_of_all(const RotaryConfig& rotary) {
  switch (rotary.scaling) {
    case RotaryScaling::kNone:
      break;
    case RotaryScaling::kLinear:
      return 1.0 / periods(rotary) / rotary.factor;
    case RotaryScaling::kYarn:
      return yarn_frequencies(rotary);
    case RotaryScaling::kLlama3:
      return llama3_frequencies(rotary);
  }
  return 1.0 / periods(rotary);
}

}  // namespace

at::Tensor rotary_frequencies(const RotaryConfig& rotary) {
  const at::NoGradGuard no_grad;
  at::Tensor frequencies = frequencies_of_all(rotary);
  if (rotary.turning_pairs > 0) frequencies.slice(0, rotary.turning_pairs).zero_();
  return frequencies;
}

}  // namespace sluice
