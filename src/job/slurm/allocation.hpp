// The Slurm allocation that a job runs in, and when it ends.
#pragma once

#include "base/clock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// How Slurm's commands name the job that this process runs in.
struct SlurmJobName {
  /// "36"; of a task of an array "36_3", as its number may be that of the whole array; of a component of a
  /// heterogeneous job the number of the first one, its leader, through which Slurm requeues all of them.
  std::string name;
  std::string number;  ///< SLURM_JOB_ID: "38", or "36" again
};

/// Name of the Slurm job in the environment; nothing outside Slurm.
[[nodiscard]] std::optional<SlurmJobName> slurm_job_name();

/// "1-02:03:04", "02:03:04" or "03:04" as squeue tells a job's time left, in seconds; nothing for anything
/// else, as "UNLIMITED".
[[nodiscard]] std::optional<double> parse_slurm_time(std::string_view text);

/// Asked of Slurm: where SLURM_JOB_END_TIME does not say it, or before anything is done about it, since
/// limits can be changed, by squeue, which has ten seconds to answer.
class Allocation {
 public:
  Allocation();

  /// Until the end; nothing outside Slurm, where there is no limit, or where Slurm does not say.
  [[nodiscard]] std::optional<double> seconds_left() const;

  /// Whether it ends within so many seconds. May wait for Slurm's answer if it seems to, at most once a
  /// minute.
  [[nodiscard]] bool ends_within(double seconds);

 private:
  [[nodiscard]] bool ask();

  std::optional<Deadline> end_;
  std::optional<Stopwatch> since_asked_;
};

}  // namespace sluice
