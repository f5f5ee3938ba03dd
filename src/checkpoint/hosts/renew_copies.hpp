// Restores the copies of a checkpoint's files after a host was lost or replaced.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "comm/communicator.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice {

/// A file of a checkpoint, and the disk that must get it.
struct MissingFile {
  int file = 0;
  int disk = 0;
  bool operator==(const MissingFile&) const = default;
};

/// Files that are missing so that each rank's file lies on two disks and every other file on all disks;
/// ordered by disk, then by file.
[[nodiscard]] std::vector<MissingFile> missing_files(const SavedStep& step, const FileHolders& holders,
                                                     const RankDisks& disks);

/// Collective over `comm`. Brings files of a checkpoint, whose directory is `path` on every disk, to the
/// first ranks of the disks that lack them, block after block. `missing`, ordered as by missing_files(), is
/// the same on every rank. A disk without the checkpoint gets its directory, under its name, when all files
/// are there; a disk that has it gets each file under its name when the file is on disk. Returns the bytes
/// that were brought, to all disks together. Error(kIo) on every rank alike: the checkpoint is as before.
std::int64_t bring_files(Communicator& comm, const HeldStep& held, const RankDisks& disks,
                         const std::filesystem::path& path, const std::vector<MissingFile>& missing,
                         double limit_seconds);

/// Collective over `comm`. bring_files() for the missing_files() of `held`, in `held.path`.
std::int64_t renew_copies(Communicator& comm, const HeldStep& held, const RankDisks& disks,
                          double limit_seconds);

}  // namespace sluice
