// Choice of the optimizer mode of a job with optimizer.fit = "auto".
#pragma once

#include "config/job_config.hpp"
#include "device/memory.hpp"
#include "job/blueprint.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// Whether the job leaves state, master and gradients of its optimizer to be chosen.
[[nodiscard]] bool chooses_mode(const JobConfig& config);

struct FittedJob {
  /// The job with the chosen state, master, gradients and model.frozen_format, and with memory.offload =
  /// "source" where nothing less leaves enough.
  JobConfig config;
  /// Reason why not even the smallest mode, which `config` then has, leaves enough memory; "" if the job
  /// fits.
  std::string lack;
};

/// The job with the first of fitting_modes() that leaves a tenth of every rank's limit free: `growth_limits`
/// has, for each rank, the bytes that it may hold above what its process takes before it sees the model.
/// `nodes`: the node of each rank. `threads` of each rank, 0 as in Workload. `memory`: the kind of memory
/// that ranks compute in. `stored`: the tensors that frozen weights could keep as published, which changes no
/// number and so is tried before the next mode.
[[nodiscard]] FittedJob fit_optimizer(const JobConfig& config, const StoredTensors& stored,
                                      std::span<const std::int64_t> growth_limits, std::span<const int> nodes,
                                      int threads, MemoryKind memory);

/// fit_optimizer() before a launch: for `ranks` ranks on nodes of their own, each with the given limit, the
/// job's threads and planned_memory().
[[nodiscard]] FittedJob fit_optimizer(const JobConfig& config, int ranks, std::int64_t growth_limit);

/// Text of a mode: "adamw, state int8, master 24bit, gradients release".
[[nodiscard]] std::string mode_text(const OptimizerMode& mode);
/// Line about the mode and the format of frozen weights that were chosen.
[[nodiscard]] std::string choice_text(const JobConfig& fitted, std::int64_t growth_limit);

}  // namespace sluice
