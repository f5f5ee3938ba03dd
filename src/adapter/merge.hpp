// An adapter made part of the weights that it changes.
#pragma once

#include "base/bytes.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>

namespace sluice {

/// Error(kBadConfig) if a weight has an adapter and shares its storage with another one that has none: a head tied to the
/// embedding.
void require_mergeable(const ParameterManifest& manifest);

/// Collective over `comm`, for a manifest that is mergeable. Adds scale * B A to the weights in `arena` of every adapter in `manifest`: worked out in float32
/// and rounded once to the arena's type. `adapters` holds this rank's shards of A and B, in any training type; they stay
/// as they are, so that whoever goes on computing with both would count them twice. Holds some `staging_bytes`, and A of
/// one weight or expert.
void merge_adapters(Communicator& comm, const ParameterManifest& manifest, const ShardValues& adapters,
                    ShardArena& arena, std::int64_t staging_bytes = 8 * kMiB);

}  // namespace sluice
