// What a training tells of the machine: its processor before the first step, time and memory after the last.
#pragma once

#include "job/job.hpp"
#include "train/phase_timer.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Collective over the context's communicator. FLOP/s of large matrix products over all ranks, which compute
/// at once, as they will in training.
[[nodiscard]] double product_rate_of_ranks(const JobContext& context);

/// Rank 0 tells what computes, at `product_rate` FLOP/s over all ranks, and warns of a BLAS whose threads
/// compete with others.
void tell_processor(const JobContext& context, double product_rate);

/// Peak bytes of each rank's memory; empty before the first step.
struct RankPeaks {
  std::vector<std::int64_t> growth;    ///< highest growth above the baseline
  std::vector<std::int64_t> resident;  ///< highest resident set
  std::vector<std::int64_t> device;    ///< most that was taken of the GPU; empty without GPUs
};

/// Logs the seconds of each phase of this rank's steps.
void log_phases(const PhaseSeconds& seconds);

/// Prints planned and measured memory of each rank.
void print_memory(const JobContext& context, const std::vector<RankMemory>& planned, const RankPeaks& peaks);

}  // namespace sluice
