// Balancing the load of experts without a loss: moves the correction bias of each expert against its load
// (Wang et al. 2024, "Auxiliary-loss-free load balancing").
#pragma once

#include "manifest/manifest.hpp"
#include "shard/arena.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// Adds rate * sign(mean - tokens) to each expert's bias, a persistent buffer per MoE layer in `weights`,
/// unless its tensor is frozen. `expert_tokens` [MoE layers x experts] count the whole batch; they are the
/// same on every rank, and so are the biases afterwards.
void move_router_biases(const ShardArena& weights, const ParameterManifest& manifest,
                        std::span<const std::int64_t> expert_tokens, float rate);

}  // namespace sluice
