// What a plan must hold before a job takes memory: one table for `run`, which ends at the first fault, and `check`,
// which lists all.
#pragma once

#include "comm/communicator.hpp"
#include "job/plan/job_plan.hpp"

#include <span>
#include <string_view>

namespace sluice {

/// A requirement of a plan.
struct PlanCheck {
  std::string_view name;  ///< key or part of the job that it is about: "checkpoint.resume"
  /// Throws an Error if the plan does not hold it. Of a run's plan it looks at this rank's part (Machine::own), of a
  /// command's at that of all ranks.
  void (*check)(const JobPlan& plan);
};

/// All requirements, in the order in which a run meets them.
[[nodiscard]] std::span<const PlanCheck> plan_checks();

/// Collective over `comm`. Throws the first fault of plan_checks() on all ranks alike.
void require_sound(Communicator& comm, const JobPlan& plan);

}  // namespace sluice
