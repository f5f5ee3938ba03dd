// What a training tells: its processor, the line and the row of each step, time and memory.
#pragma once

#include "base/clock.hpp"
#include "base/memory/growth_sampler.hpp"
#include "job/job.hpp"
#include "job/run_metrics.hpp"
#include "load/load_report.hpp"
#include "metrics/schema.hpp"
#include "train/phase_timer.hpp"
#include "train/step_metrics.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Peak memory of each rank in bytes; empty before the first step.
struct RankPeaks {
  std::vector<std::int64_t> growth;    ///< highest growth above the baseline, bytes
  std::vector<std::int64_t> resident;  ///< highest resident set, bytes
  std::vector<std::int64_t> device;    ///< most bytes in use on the GPU; empty without GPUs
};

/// Numbers that turn the tokens and seconds of a step into rates and shares.
struct StepRates {
  double flops_per_token = 0;    ///< FLOP per token of forward and backward, without recomputation
  double product_rate = 0;       ///< rate of large matrix products over all ranks, FLOP/s
  std::int64_t step_tokens = 0;  ///< tokens of a step, without padding
};

class TrainReport {
 public:
  /// Collective over the context's communicator: measures the rate of matrix products. Rank 0 creates the
  /// metrics file, and fills /load if there is a `load`. `held_out_files`: number of files that are
  /// evaluated; `sources`: number of training sources; `samples`: most samples that are added.
  TrainReport(JobContext& context, const std::optional<LoadReport>& load, std::int64_t held_out_files,
              std::int64_t sources, std::int64_t samples);

  /// Collective over the context's communicator. `step` counts from 1. Writes the row, then prints the line:
  /// a row whose line was seen is on disk, unless a warning said that the disk takes none. `held_out`: the
  /// loss of each file, NaN if it was not evaluated. `epochs` of each source, on rank 0.
  void add(std::int64_t step, const StepMetrics& metrics, double learning_rate, double seconds,
           std::vector<double> held_out, std::vector<double> epochs);

  /// Adds answers to prompts, made after the last step that was added, on rank 0; does nothing on other
  /// ranks.
  void add(const std::vector<SampleRow>& samples);

  /// Prints planned and measured memory of each rank, and bytes that ranks send in a step, on rank 0, and closes the
  /// file.
  void finish();

 private:
  void print_step(const TrainRow& row) const;

  JobContext& context_;
  StepRates rates_;
  std::vector<RankMemory> planned_;
  std::vector<std::int64_t> planned_bytes_;  ///< planned bytes of each rank while it trains
  GrowthWatch growth_;
  RunMetrics metrics_;
  std::int64_t first_step_ = 0;  ///< first step of this start, which may have resumed; 0: none yet
  Stopwatch since_first_;        ///< time since the end of the first step
  RankPeaks peaks_;
  std::int64_t device_peak_ = 0;  ///< peak bytes of this rank's GPU
  /// Fewest bytes that all ranks together have sent in a step with an update: later ones send no kept weights.
  std::int64_t least_sent_bytes_ = 0;
  PhaseSeconds phase_seconds_{};  ///< seconds of each phase on this rank, over all steps
};

}  // namespace sluice
