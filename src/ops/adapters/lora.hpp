// Low-rank adaptation of weights (LoRA): y = W x + scale * B A dropout(x).
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace sluice::ops {

/// Dropout of adapter inputs in a pass. The draw for element i of token t depends on (seed, step, adapter, t,
/// i) alone, and so not on the number of ranks.
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_token = 0;  ///< number of the pass's first token among the step's tokens over all ranks
};

/// LoRA adapter (Hu et al. 2021): adds scale * B A to a weight [out, in], or to each of fused experts [E,
/// out, in].
struct Lora {
  Parameter a;  ///< matrix A [rank, in], or [E, rank, in]
  Parameter b;  ///< matrix B [out, rank], or [E, out, rank]
  double scale = 1;
  /// Dropout of the inputs, read in the forward pass; null or of rate 0: none; always null for experts.
  const Dropout* dropout = nullptr;
  std::int64_t stream = 0;  ///< number of the adapter, which keys its dropout
};

/// A weight that multiplies tokens, with its adapter if it has one. An adapted weight gets no gradient
/// itself.
struct Weight {
  Weight() = default;
  /// Implicit on purpose: a parameter is a weight without an adapter, and is passed as one.
  Weight(Parameter parameter, std::optional<Lora> adapter = {})  // NOLINT(google-explicit-constructor)
      : base(std::move(parameter)), lora(std::move(adapter)) {}

  Parameter base;
  std::optional<Lora> lora;
};

}  // namespace sluice::ops
