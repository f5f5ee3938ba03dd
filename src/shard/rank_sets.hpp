// The sets of a job's ranks, each of which holds the model once.
#pragma once

#include "comm/communicator.hpp"
#include "shard/shard_plan.hpp"

#include <memory>

namespace sluice {

/// Communicators over all ranks, over the set of this rank, and over the ranks of equal number in the sets.
class RankSets {
 public:
  /// All ranks of `comm` as one set.
  RankSets(Communicator& comm) : all_(comm) {}  // NOLINT: a communicator is a set of ranks
  /// Collective over `all`, which must outlive the sets; its deadline holds for the communicators made from it
  /// as well. Divides its ranks as `dims` say.
  RankSets(Communicator& all, const ParallelDims& dims);

  [[nodiscard]] Communicator& all() const { return all_; }
  /// The ranks of this rank's set, in the order of shard plans.
  [[nodiscard]] Communicator& own() const { return own_ ? *own_ : all_; }
  /// The ranks that have the same shards as this one, in the order of their sets; null with one set.
  [[nodiscard]] Communicator* counterparts() const { return counterparts_.get(); }
  /// Number of this rank's set.
  [[nodiscard]] int number() const { return counterparts_ ? counterparts_->rank() : 0; }
  [[nodiscard]] bool is_first() const { return number() == 0; }
  [[nodiscard]] bool is_last() const { return !counterparts_ || number() == counterparts_->size() - 1; }
  /// Bytes that the communicators have moved since they were made.
  [[nodiscard]] Traffic traffic() const;

 private:
  Communicator& all_;
  std::unique_ptr<Communicator> own_, counterparts_;  ///< null with one set
};

}  // namespace sluice
