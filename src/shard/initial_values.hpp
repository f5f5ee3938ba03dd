// Initial values of an untrained model: the same for each element on any rank and for any number of ranks.
#pragma once

#include "manifest/manifest.hpp"
#include "shard/arena.hpp"

#include <cstdint>
#include <functional>

namespace sluice {

/// Elements [begin, begin + count) of a tensor, row-major, as its `initial` says. Random ones are normal with
/// mean 0 and the given standard deviation, from the stream (seed, tensor name).
void initial_values(const TensorInfo& tensor, float standard_deviation, std::uint64_t seed,
                    std::int64_t begin, std::int64_t count, float* out);

/// Fills a rank's shard, without communication and in bounded pieces. The values do not depend on the number
/// of ranks.
void initialize_shards(ShardArena& arena, const ParameterManifest& manifest, float standard_deviation,
                       std::uint64_t seed);

/// Source of values: writes elements [begin, begin + count) of a tensor, row-major, to `out`. Of fused
/// experts the range lies within one expert.
using TensorValues =
    std::function<void(const TensorInfo& tensor, std::int64_t begin, std::int64_t count, float* out)>;

/// Fills a rank's shards of adapters from a source, without communication and in bounded pieces.
void fill_adapters(ShardArena& arena, const ParameterManifest& manifest, const TensorValues& values);

}  // namespace sluice
