// Notes about the machine of a training: its processor before the first step, time and memory after the last.
#pragma once

#include "job/job.hpp"
#include "train/phase_timer.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Collective over the context's communicator. Rate in FLOP/s of large matrix products over all ranks, which
/// compute at the same time, as in training.
[[nodiscard]] double product_rate_of_ranks(const JobContext& context);

/// Prints on rank 0 what computes, with `product_rate` FLOP/s over all ranks, and warns of a BLAS whose
/// threads compete with others.
void tell_processor(const JobContext& context, double product_rate);

/// Peak memory of each rank in bytes; empty before the first step.
struct RankPeaks {
  std::vector<std::int64_t> growth;    ///< highest growth above the baseline, bytes
  std::vector<std::int64_t> resident;  ///< highest resident set, bytes
  std::vector<std::int64_t> device;    ///< most bytes in use on the GPU; empty without GPUs
};

/// Logs the seconds of each phase of this rank's steps.
void log_phases(const PhaseSeconds& seconds);

/// Prints planned and measured memory of each rank.
void print_memory(const JobContext& context, const std::vector<RankMemory>& planned, const RankPeaks& peaks);

}  // namespace sluice
