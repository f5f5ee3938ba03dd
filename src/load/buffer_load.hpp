// The persistent buffers of a checkpoint: few numbers, read by rank 0 and whole on every rank.
#pragma once

#include "comm/communicator.hpp"
#include "shard/arena.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <filesystem>

namespace sluice {

/// Collective over `comm`. Fills the buffers of `weights` from the files of `index`, which rank 0 sees, in
/// `directory`: float32 whatever they are stored in. Error(kBadData) for one that is not finite, as nothing
/// can be chosen by it; errors as EntryReader.
void load_buffers(Communicator& comm, const CheckpointIndex& index, const CheckpointMatch& match,
                  const std::filesystem::path& directory, const ShardArena& weights);

}  // namespace sluice
