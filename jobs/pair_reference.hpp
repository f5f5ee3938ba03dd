// The reference of a preference job, where files of scores hold it: those that the job names, or its own.
#pragma once

#include "data/batch_source.hpp"
#include "held_out.hpp"
#include "job/job.hpp"
#include "shard/arena.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

/// Scores under prefer.reference of the pairs that a job's steps and its held-out files read. Does nothing in jobs
/// whose reference is in no file, or that have none.
class PairReference {
 public:
  /// Collective over the context's communicator. Takes the scores of prefer.reference, or with "start" those that an
  /// earlier start of the run has made of the same pairs. `batches` and `held_out` must outlive this object. Errors of
  /// BatchSource::take_reference() for files that the job names.
  PairReference(JobContext& context, BatchSource& batches, HeldOut& held_out);

  /// Whether pairs have yet to be scored, with the weights that the job starts from.
  [[nodiscard]] bool is_missing() const;

  /// Collective over the context's communicator. Scores what is missing with `weights`, those that the job starts from,
  /// into the folder `reference` of the run directory. False if the job was asked to stop: run again, it goes on there.
  /// Errors of ScoreWriter and Evaluator.
  [[nodiscard]] bool make(ShardArena& weights);

 private:
  /// Token files that are read together, of which each has a file of scores.
  struct Part {
    BatchSource* tokens;
    std::int64_t batches;  ///< number of batches that hold every pair that is read
    bool is_held_out;
    std::vector<std::filesystem::path> files{};
    bool is_missing = false;
  };
  [[nodiscard]] bool make(const Part& part, ShardArena& weights);
  [[nodiscard]] Batch read(const Part& part, std::int64_t number) const;

  JobContext& context_;
  std::vector<Part> parts_;
};

}  // namespace sluice
