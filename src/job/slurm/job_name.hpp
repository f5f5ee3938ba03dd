// How Slurm's commands name the job that this process runs in.
#pragma once

#include <optional>
#include <string>

namespace sluice {

struct SlurmJobName {
  /// "36"; of a task of an array "36_3", as its number may be that of the whole array; of a component of a
  /// heterogeneous job the number of the first one, its leader, through which Slurm requeues all of them.
  std::string name;
  std::string number;  ///< SLURM_JOB_ID: "38", or "36" again
};

/// Name of the Slurm job in the environment; nothing outside Slurm.
[[nodiscard]] std::optional<SlurmJobName> slurm_job_name();

}  // namespace sluice
