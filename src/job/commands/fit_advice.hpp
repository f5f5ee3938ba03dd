// Advice on settings that make a job fit into memory.
#pragma once

#include "job/blueprint.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

struct FitAdvice {
  std::string change;           ///< change of the settings: "6 ranks", "job.kind = \"evaluate\""
  std::int64_t peak_bytes = 0;  ///< peak bytes of the rank that needs most
};

/// Changes with which no rank of the job needs more than `memory_bytes`, for each sort the smallest one.
/// Empty if none is known. `staging_bytes` as in plan_memory().
[[nodiscard]] std::vector<FitAdvice> advise(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes,
                                            std::span<const std::int64_t> staging_bytes);

}  // namespace sluice
