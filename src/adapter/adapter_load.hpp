// Loads the values of an adapter from its file into the shards.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "base/bytes.hpp"
#include "comm/communicator.hpp"
#include "shard/arena.hpp"

#include <cstdint>

namespace sluice {

/// Collective over `comm`. Fills what each rank owns of the adapters in `manifest`, which has those of
/// `adapter`. Rank 0 reads the file in pieces of `chunk_bytes`, which all ranks get; nothing else is held.
/// Error(kBadData) or Error(kIo) on every rank if the file is no longer what it was or cannot be read.
void load_adapter(Communicator& comm, const PeftAdapter& adapter, const ParameterManifest& manifest,
                  ShardArena& arena, std::int64_t chunk_bytes = 8 * kMiB);

}  // namespace sluice
