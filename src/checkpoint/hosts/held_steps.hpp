// Checkpoints on the hosts of a job: which files of a checkpoint lie where.
#pragma once

#include "checkpoint/hosts/rank_disks.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/communicator.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// The disks that have each of SavedStep::files, ascending.
using FileHolders = std::vector<std::vector<int>>;

/// A checkpoint and the hosts that hold its files; `found.path` is its directory on this rank's disk, if it
/// is there.
struct HeldStep {
  FoundStep found;
  FileHolders holders;
};

/// Checkpoints that the first rank of each disk finds in its `directory`.
class HeldSteps {
 public:
  /// Collective over `comm`, which must outlive this object. Lists the names of checkpoints on all disks.
  HeldSteps(Communicator& comm, RankDisks disks, std::filesystem::path directory);

  /// Checkpoints on all disks, ascending, each with its place on this rank's disk.
  [[nodiscard]] const std::vector<StepPlace>& steps() const { return steps_; }

  /// Collective over `comm`. Reads a checkpoint, which is complete if each file of its manifest lies on some
  /// disk beside that manifest. Manifests of one step may differ, if a host was away while others went on:
  /// the last saved complete one counts. Where disks_ are not all, files that were saved on other hosts count as
  /// held. Error(kBadData) on every rank alike if none is complete, with the
  /// first fault; Error(kIo) if a disk cannot be read.
  [[nodiscard]] HeldStep read(const StepPlace& place) const;

  /// Collective over `comm`. The checkpoint that `which` means, as step_in() finds it.
  [[nodiscard]] std::optional<HeldStep> find(std::int64_t which, const TellBroken& on_broken) const;

 private:
  Communicator& comm_;
  RankDisks disks_;
  std::filesystem::path directory_;
  std::vector<StepPlace> steps_;
};

}  // namespace sluice
