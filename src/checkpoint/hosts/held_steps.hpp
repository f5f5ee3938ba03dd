// Saved steps as the hosts of a job have them: which files of a step lie where.
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

/// A step with the places of its files; `found.path` is where they lie on this rank's disk, if they do.
struct HeldStep {
  FoundStep found;
  FileHolders holders;
};

/// Checkpoints that the first rank of each disk finds in its `directory`.
class HeldSteps {
 public:
  /// Collective over `comm`, which must outlive this. Lists the names of steps on all disks.
  HeldSteps(Communicator& comm, RankDisks disks, std::filesystem::path directory);

  /// Checkpoints on all disks, ascending, each with its place on this rank's disk.
  [[nodiscard]] const std::vector<StepPlace>& steps() const { return steps_; }

  /// Collective. A step is whole when each file of its manifest lies on some disk beside that manifest.
  /// Manifests of one number may differ, where a host was away while others went on: the last one that was
  /// saved and is whole counts. Error(kBadData) on every rank alike if none is, with the first thing that is
  /// wrong; Error(kIo) if a disk cannot be read.
  [[nodiscard]] HeldStep read(const StepPlace& place) const;

  /// Collective. The step that `which` means, as step_in() finds it.
  [[nodiscard]] std::optional<HeldStep> find(std::int64_t which, const TellBroken& on_broken) const;

 private:
  Communicator& comm_;
  RankDisks disks_;
  std::filesystem::path directory_;
  std::vector<StepPlace> steps_;
};

}  // namespace sluice
