// The Slurm allocation of a job, and when it ends.
#pragma once

#include "base/clock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// Name of this process's job in Slurm's commands.
struct SlurmJobName {
  /// Job id for Slurm's commands, "36"; for a task of an array "36_3", because its own number may be that of
  /// the whole array; for a component of a heterogeneous job the id of its leader, through which Slurm
  /// requeues all components.
  std::string name;
  std::string number;  ///< SLURM_JOB_ID: "38", or "36" as above
};

/// Name of the Slurm job in the environment; nothing outside Slurm.
[[nodiscard]] std::optional<SlurmJobName> slurm_job_name();

/// Seconds of a remaining time as squeue prints it: "1-02:03:04", "02:03:04" or "03:04"; nothing for anything
/// else, such as "UNLIMITED".
[[nodiscard]] std::optional<double> parse_slurm_time(std::string_view text);

/// End of an allocation. Slurm is asked by squeue, within ten seconds, if SLURM_JOB_END_TIME is not set, or
/// before the end is acted on, since limits can be changed.
class Allocation {
 public:
  Allocation();

  /// Returns the seconds until the allocation ends; empty outside of Slurm, without a time limit, or if Slurm
  /// does not tell.
  [[nodiscard]] std::optional<double> seconds_left() const;

  /// Whether the allocation ends within `seconds`. If it seems to, may wait for Slurm's answer, at most once
  /// a minute.
  [[nodiscard]] bool ends_within(double seconds);

 private:
  [[nodiscard]] bool ask();

  std::optional<Deadline> end_;
  std::optional<Stopwatch> since_asked_;
};

}  // namespace sluice
