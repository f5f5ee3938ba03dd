// Changes with which a job that is too large for its machines would fit.
#pragma once

#include "job/plan/job_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// A change that makes a job fit.
struct FitAdvice {
  std::string change;           ///< change of the settings: "6 ranks", "job.kind = \"evaluate\""
  std::int64_t peak_bytes = 0;  ///< peak bytes of the rank that needs most
};

/// Changes with which no rank of the job needs more than `memory_limit` bytes, for each sort the smallest one. Empty if
/// none is known.
[[nodiscard]] std::vector<FitAdvice> advise(const JobPlan& plan, std::int64_t memory_limit);

}  // namespace sluice
