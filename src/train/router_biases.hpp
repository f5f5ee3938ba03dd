// Equal loads of experts without a loss: correction biases of their choice that move against the loads (Wang
// et al. 2024, "Auxiliary-loss-free load balancing").
#pragma once

#include "manifest/manifest.hpp"
#include "shard/arena.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// Adds rate * sign(mean - tokens) to each expert's bias, unless its tensor is frozen. `expert_tokens` [MoE
/// layers x experts] are those of the whole batch, the same on every rank, and so are the biases after it:
/// the persistent buffers of `weights`, one a MoE layer.
void move_router_biases(const ShardArena& weights, const ParameterManifest& manifest,
                        std::span<const std::int64_t> expert_tokens, float rate);

}  // namespace sluice
