// Several readers, one checkpoint: each looks at its copy before a byte of it is used.
#pragma once

#include "comm/communicator.hpp"
#include "weights/checkpoint_index.hpp"

#include <filesystem>
#include <span>

namespace sluice {

/// Collective over `comm`. Each of `readers` (ascending) digests of every file of `index`, in its
/// `directory`, the header and blocks of up to 64 tensors; the index is the same on every rank.
/// Error(kInternal) with the files and the ranks if a copy is not the first reader's; Error(kBadData) if a
/// file is missing or has another length. Nothing to do for a single reader.
void agree_on_source(Communicator& comm, const CheckpointIndex& index, const std::filesystem::path& directory,
                     std::span<const int> readers);

}  // namespace sluice
