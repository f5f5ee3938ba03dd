// Agreement of several readers' copies of a checkpoint, before a byte of them is used.
#pragma once

#include "comm/communicator.hpp"
#include "weights/checkpoint_index.hpp"

#include <filesystem>
#include <span>

namespace sluice {

/// Collective over `comm`. Each of `readers` (ascending) computes a digest of the header and of blocks of up
/// to 64 tensors for every file of `index` in its `directory`; the index is the same on every rank.
/// Error(kInternal) with the files and the ranks if a copy differs from the first reader's; Error(kBadData)
/// if a file is missing or has another length. Does nothing for a single reader.
void agree_on_source(Communicator& comm, const CheckpointIndex& index, const std::filesystem::path& directory,
                     std::span<const int> readers);

}  // namespace sluice
