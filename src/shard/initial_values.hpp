// Values of an untrained model, element by element the same on any rank and for any number of ranks.
#pragma once

#include "manifest/manifest.hpp"
#include "shard/arena.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

/// Elements [begin, begin + count) of a tensor, row-major, as its `initial` says; random ones from the stream
/// (seed, tensor name), normal numbers with mean 0 and the given standard deviation.
void initial_values(const TensorInfo& tensor, float standard_deviation, std::uint64_t seed,
                    std::int64_t begin, std::int64_t count, float* out);

/// Fills a rank's shard, without communication and in bounded pieces. The values do not depend on the number
/// of ranks.
void initialize_shards(ShardArena& arena, const ParameterManifest& manifest, float standard_deviation,
                       std::uint64_t seed);

/// Source of values: writes elements [begin, begin + count) of a tensor, row-major, of fused experts within
/// one expert, to `out`.
using TensorValues =
    std::function<void(const TensorInfo& tensor, std::int64_t begin, std::int64_t count, float* out)>;

/// Fills what a rank owns of adapters, without communication and in bounded pieces.
void fill_adapters(ShardArena& arena, const ParameterManifest& manifest, const TensorValues& values);

}  // namespace sluice
