// The passes of a model over batches for the log-probabilities of their tokens: of a score job, and of a preference job
// before it begins.
#pragma once

#include "data/batch.hpp"
#include "job/job.hpp"
#include "shard/arena.hpp"
#include "train/evaluator.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

/// Batches to score. Both functions are collective over the job's ranks.
struct ScoredBatches {
  std::int64_t begin = 0, end = 0;                 ///< numbers of the batches
  std::function<Batch(std::int64_t number)> read;  ///< this rank's share of a batch
  /// Scores a batch and keeps the scores. False if no later batch is needed.
  std::function<bool(std::int64_t number, const Batch& share, Evaluator& evaluator)> score;
};

/// Collective over the job's ranks. Scores batches with these weights. False if the job was asked to stop before the
/// end, which it then does with kResumable.
[[nodiscard]] bool score_batches(JobContext& context, ShardArena& weights, const ScoredBatches& batches);

}  // namespace sluice
