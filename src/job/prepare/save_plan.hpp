// What saving a training's state takes on the disk.
#pragma once

#include "config/job_config.hpp"
#include "plan/memory_plan.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// Of one saved step: what the ranks keep, headers and manifest apart.
[[nodiscard]] std::int64_t saved_step_bytes(std::span<const RankMemory> ranks);

/// Error(kIo) if the place of the steps cannot be written, or has no room for checkpoint.keep of them and one in the making,
/// those that are there counted.
void require_room_for_steps(const JobConfig& config, std::int64_t step_bytes);

/// "every 30 min and at the end, 1.2 GB each into runs/x/checkpoints; 2 are kept"
[[nodiscard]] std::string save_text(const JobConfig& config, std::int64_t step_bytes);

}  // namespace sluice
