// Low-rank changes of weights (LoRA): y = W x + scale * B A dropout(x).
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>
#include <optional>
#include <utility>

namespace sluice::ops {

/// Which inputs of adapters are left out in a pass. Element i of token t is drawn from (seed, step, adapter, t, i) alone, so
/// that any number of ranks draws the same.
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_token = 0;  ///< of the pass, among those of the step over all ranks
};

/// The change of a weight [out, in], or of fused experts [E, out, in].
struct LowRank {
  Parameter a;  ///< [rank, in], or [E, rank, in]
  Parameter b;  ///< [out, rank], or [E, out, rank]
  double scale = 1;
  const Dropout* dropout = nullptr;  ///< null or of rate 0: none; read in the forward pass; never of experts
  std::int64_t stream = 0;           ///< number of the adapter, for its dropout
};

/// A weight that tokens are multiplied with. With a change, its own gradient is not wanted.
struct Weight {
  Weight() = default;
  /// Not explicit: a parameter is a weight without a change, and is passed as one.
  Weight(Parameter parameter, std::optional<LowRank> low_rank = {})  // NOLINT(google-explicit-constructor)
      : base(std::move(parameter)), change(std::move(low_rank)) {}

  Parameter base;
  std::optional<LowRank> change;
};

}  // namespace sluice::ops
