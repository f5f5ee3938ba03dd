// Merges adapters into the weights that they adapt.
#pragma once

#include "base/bytes.hpp"
#include "comm/communicator.hpp"
#include "manifest/manifest.hpp"
#include "shard/arena.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// A weight with its adapter: [experts, out, in], [experts, rank, in] and [experts, out, rank]; with one
/// expert for a matrix. Weights that are published joined share A.
struct AdaptedWeight {
  int weight = 0, a = 0, b = 0;  ///< indices of the weight and its adapter's A and B in the manifest
  std::int64_t experts = 1, out = 0, in = 0, rank = 0;
  float scale = 1;
};

/// Adapted weights of a manifest, in its order.
[[nodiscard]] std::vector<AdaptedWeight> adapted_weights(const ParameterManifest& manifest);

/// Adapter for the weights that a rank owns of one stored matrix: `count` weights from element `tensor_begin`
/// of the tensor on, at `place` of the arena. `a` is [rank, in]; `b` has `rank` numbers for each row in which
/// they lie.
struct StoredChange {
  AdaptedWeight adapted;
  std::int64_t place = 0, count = 0, tensor_begin = 0;
  std::vector<float> a, b;
  [[nodiscard]] std::int64_t end() const { return place + count; }
};

/// Adds scale * sum over i of b[i] * a[i * in + k] to `count` weights of one row: `b` is that row's [rank],
/// `a` points to the first weight's column of [rank, in]. `change` is working memory.
void add_adapter_to_row(const AdaptedWeight& adapted, const float* b, const float* a, std::int64_t count,
                        float* weights, std::vector<float>& change);

/// Error(kBadConfig) if an adapted weight shares its storage with another one that has no adapter, such as a
/// head tied to the embedding.
void require_mergeable(const ParameterManifest& manifest);

/// Collective over `comm`, for a manifest that is mergeable. Adds scale * B A to the weights in `arena` of
/// every adapter in `manifest`: worked out in float32 and rounded once to the arena's type. `adapters` holds
/// this rank's shards of A and B, in any training type; they stay as they are, so that whoever goes on
/// computing with both would count them twice. Holds some `staging_bytes`, and A of one weight or expert.
/// Stored weights stay as they are: returns what MergedValues adds to those of this rank, in float32.
std::vector<StoredChange> merge_adapters(Communicator& comm, const ParameterManifest& manifest,
                                         const ShardValues& adapters, ShardArena& arena,
                                         std::int64_t staging_bytes = 8 * kMiB);

}  // namespace sluice
