// Comparison of values that must be the same on all ranks.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Values after a step that must be equal on all ranks. Weights are not among them: one rank owns each, and
/// all others get it from that rank.
struct CommonValues {
  std::int64_t step = 0;
  std::int64_t updates = 0;  ///< number of updates, from which stochastic rounding draws
  double learning_rate = 0;
  double loss = 0;
  double aux_loss = 0;
  double z_loss = 0;
  double grad_norm = 0;
  std::vector<std::int64_t> expert_tokens;
};

/// Collective over `comm`. Error(kInternal), on every rank alike, if values are not bit for bit the same on
/// all ranks; it names each such value, and which ranks have which.
void require_same_on_all_ranks(Communicator& comm, const CommonValues& values);

}  // namespace sluice
