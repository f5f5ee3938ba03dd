// Saves a step: every rank writes its own file, rank 0 the manifest, and the directory appears whole or not at all.
#pragma once

#include "base/clock.hpp"
#include "checkpoint/saved_step.hpp"
#include "checkpoint/state_spans.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"
#include "shard/offloaded_units.hpp"
#include "weights/companion_files.hpp"
#include "weights/staged_directory.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

struct SaveRequest {
  std::filesystem::path directory;  ///< of all steps; every rank sees it
  const ParameterManifest& manifest;
  /// This rank's, each unit's together, best in the order in which units are updated.
  std::vector<StateSpan> state;
  /// That has some of it on a disk, settled; null: none.
  const OffloadedUnits* offload = nullptr;
  SavedStep description;                    ///< of the step, its files apart; used on rank 0
  std::vector<CompanionFile> companions{};  ///< small files that go along; used on rank 0
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
  /// Steps that must not outlive this one, because they are of another course of training; used on rank 0.
  std::vector<std::filesystem::path> superseded{};
  double limit_seconds = 600;  ///< in which the disk must take a block
};

struct SaveReport {
  std::int64_t bytes = 0;     ///< of all files
  double seconds = 0;         ///< from the beginning to the end
  double waited_seconds = 0;  ///< of them, that this rank did nothing else
  HeldOutStep best{};         ///< as the step's description says
};

/// A step that is being written, on a thread of each rank, while training goes on: a unit that is to be updated before it was
/// written is copied first. What lies on a disk is read from there. Each rank holds two blocks of kSavedBlockBytes, with such
/// a disk three, its table of contents and at most its largest unit besides what it saves. If anything fails every rank throws the
/// same error from finish(), Error(kNumerics) where weights on a disk, which nobody has looked at since their update, are not
/// finite: before the step was published nothing is left of it, and earlier steps are as they were.
class StepSave {
 public:
  /// Collective over `comm`, which must outlive this, as must `request.manifest` and the memory of `request.state`. Makes the
  /// directory and the files under a temporary name, and begins to write. Error(kIo) on every rank alike.
  StepSave(Communicator& comm, SaveRequest request);
  /// Without finish() the step is given up.
  ~StepSave();
  StepSave(const StepSave&) = delete;
  StepSave& operator=(const StepSave&) = delete;

  /// Before the unit is updated. Error(kIo) if the disk takes nothing for `limit_seconds`.
  void keep(int unit);

  /// Whether this rank's file is on disk, or will not come to be there.
  [[nodiscard]] bool is_written() const;

  /// Collective. Waits for all files, publishes the step, and removes those that need not be kept.
  SaveReport finish();

 private:
  class Writing;

  [[nodiscard]] bool is_root() const { return comm_.rank() == 0; }
  void wait_until_written();
  [[nodiscard]] std::int64_t publish(const std::vector<std::string>& files);
  void replace_step() const;
  void prune() const;

  Communicator& comm_;
  SaveRequest request_;
  std::filesystem::path target_;
  std::optional<StagedDirectory> staged_;  ///< on rank 0
  std::shared_ptr<Writing> writing_;       ///< also the thread's, which may be stuck in a call of the system
  Stopwatch since_begin_;
  double waited_seconds_ = 0;
};

/// Collective over `comm`. A StepSave that is waited for.
SaveReport save_step(Communicator& comm, SaveRequest request);

/// Bytes that a rank holds of a step in the making, besides what training goes on to change.
inline constexpr std::int64_t kSaveStagingBytes = 2 * kSavedBlockBytes;

}  // namespace sluice
