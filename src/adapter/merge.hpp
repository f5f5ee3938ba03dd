// An adapter made part of the weights that it changes.
#pragma once

#include "base/bytes.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>

namespace sluice {

/// Collective over `comm`. Adds scale * B A to the weights in `arena` of every adapter in `manifest`: worked out in float32
/// and rounded once to the arena's type. `adapters` holds this rank's shards of A and B, in any training type; they stay
/// as they are, so that whoever goes on computing with both would count them twice. Holds some `staging_bytes`, and A of
/// one weight or expert.
void merge_adapters(Communicator& comm, const ParameterManifest& manifest, const ShardValues& adapters,
                    ShardArena& arena, std::int64_t staging_bytes = 8 * kMiB);

}  // namespace sluice
