// Load of a checkpoint's tensors that every rank holds whole: few numbers, which rank 0 reads.
#pragma once

#include "comm/communicator.hpp"
#include "shard/arena.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <filesystem>

namespace sluice {

/// Collective over `comm`. Fills the persistent buffers and float32 parameters of `weights`, float32 whatever
/// the files store, from the files of `index` in `directory`, which rank 0 sees. Error(kBadData) for a number
/// that is not finite; errors as EntryReader.
void load_buffers(Communicator& comm, const CheckpointIndex& index, const CheckpointMatch& match,
                  const std::filesystem::path& directory, const ShardArena& weights);

}  // namespace sluice
