// Settings that would make a job fit that does not.
#pragma once

#include "job/blueprint.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

struct FitAdvice {
  std::string change;           ///< "6 ranks", "job.kind = \"evaluate\""
  std::int64_t peak_bytes = 0;  ///< peak bytes of the rank that needs most
};

/// Changes under which no rank of the job needs more than `memory_bytes`, the smallest change of each sort
/// first. Empty if none is known. `staging_bytes` as plan_memory() takes it.
[[nodiscard]] std::vector<FitAdvice> advise(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes,
                                            std::span<const std::int64_t> staging_bytes);

}  // namespace sluice
