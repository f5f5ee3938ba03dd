// Finds out whether the ranks of a job save to one file system, or each to its host's disk.
#pragma once

#include "checkpoint/hosts/rank_disks.hpp"
#include "comm/communicator.hpp"
#include "config/job_config.hpp"

#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Disks to which the ranks save.
struct SaveDisks {
  RankDisks disks;
  /// Name of each disk's host; empty if all ranks share one file system.
  std::vector<std::string> hosts;
  bool has_copies = false;  ///< whether another host keeps a copy of each rank's file

  /// Number of copies of each rank's file, 0 or 1.
  [[nodiscard]] std::int64_t partner_copies() const { return has_copies ? 1 : 0; }
  [[nodiscard]] bool are_shared() const { return hosts.empty(); }
};

/// Collective over `comm`. Tries checkpoint.path: every rank writes there, beside what the first rank of each
/// node made, which others see or not. `nodes` tells the node of each rank. Error(kBadConfig) if some hosts
/// share the directory and others do not, if checkpoint.storage = "node" and they share it, or if copies are
/// asked for and there is no other host; Error(kIo) if a rank cannot write.
[[nodiscard]] SaveDisks find_save_disks(Communicator& comm, std::span<const int> nodes,
                                        const JobConfig& config);

}  // namespace sluice
