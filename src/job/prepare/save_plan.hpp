// Disk space that a training's checkpoints need.
#pragma once

#include "checkpoint/hosts/rank_disks.hpp"
#include "config/job_config.hpp"
#include "plan/memory_plan.hpp"
#include "shard/shard_plan.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Bytes of one checkpoint: the state of all ranks, without headers and manifest.
[[nodiscard]] std::int64_t saved_step_bytes(std::span<const RankMemory> ranks);

/// Copies of each rank's file on another host where hosts save apart: none where several sets of ranks save the same.
[[nodiscard]] std::int64_t partner_copies(const JobConfig& config);

/// Bytes of one checkpoint on each disk, with 0 or 1 `partner_copies` of other disks' files. Every set of ranks saves
/// to its own disks.
[[nodiscard]] std::vector<std::int64_t> step_bytes_of_disks(std::span<const RankMemory> ranks,
                                                            const RankDisks& disks,
                                                            std::int64_t partner_copies,
                                                            const ParallelDims& dims);

/// Text about checkpoints on hosts: "each rank's file is on its own host, with a copy on another: at most 1.2
/// GB a step on one".
[[nodiscard]] std::string hosts_text(std::span<const std::int64_t> step_bytes, const JobConfig& config);

/// Error(kIo) if the directory of the checkpoints cannot be written, or has no room for checkpoint.keep of
/// them and one that is being written; existing ones count.
void require_room_for_steps(const JobConfig& config, std::int64_t step_bytes);

/// Text about saves: "every 30 min and at the end, 1.2 GB each into runs/x/checkpoints; 2 are kept".
[[nodiscard]] std::string save_text(const JobConfig& config, std::int64_t step_bytes);

}  // namespace sluice
