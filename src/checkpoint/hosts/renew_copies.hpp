// Gives a saved step its copies back, after a host was lost or others came in its place.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "comm/communicator.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice {

/// A file of a step and the disk that is to get it.
struct MissingFile {
  int file = 0;
  int disk = 0;
  bool operator==(const MissingFile&) const = default;
};

/// Files that are missing for each rank's file to lie on two disks and every other file on all: by disk, then
/// by file.
[[nodiscard]] std::vector<MissingFile> missing_files(const SavedStep& step, const FileHolders& holders,
                                                     const RankDisks& disks);

/// Collective over `comm`. Brings files of a step, whose directory is `path` on every disk, to the first
/// ranks of the disks that lack them, block after block. `missing`, ordered as missing_files() does, is the
/// same on every rank. A disk without the step gets the directory under its name when all of it is there; on
/// one that has the step, a file gets its name when it is on disk. Returns the bytes that were brought, of
/// all disks. Error(kIo) on every rank alike: the step is as it was.
std::int64_t bring_files(Communicator& comm, const HeldStep& held, const RankDisks& disks,
                         const std::filesystem::path& path, const std::vector<MissingFile>& missing,
                         double limit_seconds);

/// Collective over `comm`. The same of missing_files(), with `path` that of `held`.
std::int64_t renew_copies(Communicator& comm, const HeldStep& held, const RankDisks& disks,
                          double limit_seconds);

}  // namespace sluice
