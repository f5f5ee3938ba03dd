// Saves a checkpoint: every rank writes its own file, the first rank of each disk the manifest; directories
// appear whole or not at all.
#pragma once

#include "base/clock.hpp"
#include "checkpoint/block_writer.hpp"
#include "checkpoint/hosts/file_copy.hpp"
#include "checkpoint/hosts/rank_disks.hpp"
#include "checkpoint/saved_step.hpp"
#include "checkpoint/state_spans.hpp"
#include "comm/communicator.hpp"
#include "io/staged_directory.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "weights/companion_files.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

class RankFileThread;

struct SaveRequest {
  std::filesystem::path directory;  ///< directory of all checkpoints; the same for the ranks of one disk
  const ParameterManifest& manifest;
  /// State of this rank, the spans of each unit together, best in the order in which units are updated.
  std::vector<StateSpan> state;
  /// The paged arena that the state is part of, settled; null if all of it is in memory.
  const ShardArena* paged = nullptr;
  SavedStep description;                    ///< description of the step without its files; used on rank 0
  std::vector<CompanionFile> companions{};  ///< companion files to save with it; used on rank 0
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
  /// Checkpoints to remove with this save, because they belong to another course of training; used on the
  /// first rank of each disk.
  std::vector<std::filesystem::path> superseded{};
  std::optional<RankDisks> disks{};  ///< disks of the ranks; empty: all share one
  /// Name of each disk's host, if each host has its own disk; used on rank 0.
  std::vector<std::string> hosts{};
  /// Whether a rank of another host keeps a copy of each rank's file; needs at least two disks.
  bool has_copies = false;
  /// Number of sets of consecutive ranks with the same state bit for bit: each disk gets it from the first of its
  /// ranks that have it, under the name of the first set's file.
  int sets = 1;
  double limit_seconds = 600;  ///< seconds within which the disk must accept a block
};

struct SaveReport {
  std::int64_t bytes = 0;         ///< bytes of all files; known on rank 0
  std::int64_t copied_bytes = 0;  ///< bytes of the copies on other hosts; known on rank 0
  double seconds = 0;             ///< seconds from the beginning of the save to its end
  double waited_seconds = 0;      ///< seconds of the save during which this rank did nothing else
  HeldOutStep best{};             ///< the checkpoint with the lowest held-out loss, as this one records it
};

/// A step that is being written, on a thread of each rank, while training goes on: a unit that is to be
/// updated before it was written is copied first. What lies on a disk is read from there. Each rank holds
/// kSaveStagingBytes, with such a disk kSavedBlockBytes more, its table of contents and at most its largest
/// unit besides what it saves; a copy for another host is made from the file once that is on disk, so that
/// training waits for no network, and takes kCopySentBytes, and kCopyTakenBytes for each that is taken in. If
/// anything fails every rank throws the same error from finish(), Error(kNumerics) where weights on a disk,
/// which nobody has looked at since their update, are not finite: before the step was published nothing is
/// left of it, and earlier steps are as they were. On several disks a step is whole once each has its part
/// under the step's name; only then do older steps go.
class StepSave {
 public:
  /// Collective over `comm`, which must outlive this object, as must `request.manifest` and the memory of
  /// `request.state`. Creates the directory and the files under a temporary name, and begins to write.
  /// Error(kIo) on every rank alike.
  StepSave(Communicator& comm, SaveRequest request);
  /// Abandons the save unless finish() was called.
  ~StepSave();
  StepSave(const StepSave&) = delete;
  StepSave& operator=(const StepSave&) = delete;

  /// Keeps a unit's state for the save; must be called before the unit is updated. Error(kIo) if the disk
  /// accepts nothing for `limit_seconds`.
  void keep(int unit);

  /// Whether this rank's file and the copies that it receives are on disk, or have failed.
  [[nodiscard]] bool is_written() const;

  /// Collective over `comm`. Waits for all files, publishes the checkpoint, and removes those that need not
  /// be kept.
  SaveReport finish();

 private:
  [[nodiscard]] bool is_root() const { return comm_.rank() == 0; }
  /// Whether this rank does the work that is done once per disk.
  [[nodiscard]] bool is_first() const { return disks_.is_first(comm_.rank()); }
  void stop();
  [[nodiscard]] std::optional<CopyTarget> exchange_targets();
  void wait_until_written();
  void wait_for_copies(double seconds);
  [[nodiscard]] SavedStep complete(const std::vector<std::string>& files) const;
  void share_companions(const SavedStep& step) const;
  void write_manifest(const SavedStep& step) const;
  void commit();
  void replace_step() const;
  void prune() const;

  Communicator& comm_;
  SaveRequest request_;
  std::filesystem::path target_;
  RankDisks disks_;
  /// Directory of the checkpoint, held by the first rank of each disk.
  std::optional<StagedDirectory> staged_;
  /// Copies of other ranks' files that this rank receives.
  std::vector<std::shared_ptr<IncomingCopy>> incoming_;
  /// Thread that writes this rank's file, and may be stuck; null if another rank writes the same to its disk.
  std::shared_ptr<RankFileThread> writing_;
  Stopwatch since_begin_;
  double waited_seconds_ = 0;
};

/// Collective over `comm`. Saves a checkpoint and waits for it.
SaveReport save_step(Communicator& comm, SaveRequest request);

/// Bytes that a rank holds for a save besides a copy of state that training changes.
inline constexpr std::int64_t kSaveStagingBytes = BlockWriter::kStagingBytes;

}  // namespace sluice
