// Comparison of values that must be the same on all ranks.
#pragma once

#include "comm/communicator.hpp"
#include "shard/arena.hpp"
#include "shard/rank_sets.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Values after a step that must be equal on all ranks. Weights are not among them: one rank of a set owns each,
/// and all others of the set get it from that rank.
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

/// Collective over all ranks of `sets`. Error(kInternal), on every rank alike, if the trained weights of counterparts
/// are not bit for bit the same after a step; it names those ranks. Weights on a disk are not compared.
void require_same_weights_in_sets(const RankSets& sets, const ShardArena& weights, std::int64_t step);

}  // namespace sluice
