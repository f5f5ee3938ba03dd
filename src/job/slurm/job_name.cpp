#include "job/slurm/job_name.hpp"

#include <cstdlib>

namespace sluice {
namespace {

std::string variable_text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<SlurmJobName> slurm_job_name() {
  const std::string number = variable_text("SLURM_JOB_ID");
  if (number.empty()) return std::nullopt;
  const std::string array = variable_text("SLURM_ARRAY_JOB_ID"), task = variable_text("SLURM_ARRAY_TASK_ID");
  if (!array.empty() && !task.empty()) return SlurmJobName{array + "_" + task, number};
  const std::string leader = variable_text("SLURM_HET_JOB_ID");
  return SlurmJobName{leader.empty() ? number : leader, number};
}

}  // namespace sluice
