// Low-rank changes of weights (LoRA): y = W x + scale * B A dropout(x).
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace sluice::ops {

/// Dropout of adapter inputs in a pass. Element i of token t is drawn from (seed, step, adapter, t, i) alone,
/// so that any number of ranks draws the same.
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_token = 0;  ///< index of the pass's first token in the step's tokens over all ranks
};

/// LoRA adapter of a weight [out, in], or of fused experts [E, out, in]: adds scale * B A to it (Hu et al.
/// 2021).
struct Lora {
  Parameter a;  ///< [rank, in], or [E, rank, in]
  Parameter b;  ///< [out, rank], or [E, out, rank]
  double scale = 1;
  const Dropout* dropout = nullptr;  ///< null or of rate 0: none; read in the forward pass; never of experts
  std::int64_t stream = 0;           ///< number of the adapter, for its dropout
};

/// A weight that tokens are multiplied with, and its adapter, if any. An adapted weight takes no gradient
/// itself.
struct Weight {
  Weight() = default;
  /// Not explicit: a parameter is a weight without an adapter, and is passed as one.
  Weight(Parameter parameter, std::optional<Lora> adapter = {})  // NOLINT(google-explicit-constructor)
      : base(std::move(parameter)), lora(std::move(adapter)) {}

  Parameter base;
  std::optional<Lora> lora;
};

}  // namespace sluice::ops
