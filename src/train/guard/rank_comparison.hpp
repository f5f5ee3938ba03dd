// Holds against each other what must be the same on all ranks.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Values after a step that must be equal on all ranks. No weight is among them: each is owned by a single
/// rank, which all others get it from.
struct CommonValues {
  std::int64_t step = 0;
  std::int64_t updates = 0;  ///< the optimizer's counter, from which stochastic rounding draws
  double learning_rate = 0;
  double loss = 0;
  double aux_loss = 0;
  double z_loss = 0;
  double grad_norm = 0;
  std::vector<std::int64_t> expert_tokens;
};

/// Collective over `comm`. Error(kInternal), on every rank alike, that names each value which is not bit for
/// bit the same on all ranks, and which ranks have which.
void require_same_on_all_ranks(Communicator& comm, const CommonValues& values);

}  // namespace sluice
