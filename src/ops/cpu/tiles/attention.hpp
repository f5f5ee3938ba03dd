// Causal attention of bfloat16, block by block of tiles: scores go from one product through vector registers
// into the tiles of the next, and never to memory beyond a core's own caches.
// Internal to src/ops.
#pragma once

#include "ops/cpu/tiles/heads.hpp"

#include <span>

namespace sluice::ops::cpu {

/// Attention of one head of keys and its queries: `out` = softmax(scale * q k^T) v, laid out as q, and
/// logsumexp.
struct TileAttention {
  tiles::Heads heads;
  std::uint16_t* out;
  std::int64_t first_query = 0;  ///< first query; earlier ones may be left out
};

/// Attention of heads that differ in their numbers and documents alone. Shares them out to all threads, with
/// the same results for any number of threads. Requires has_tiles().
void tile_attention(std::span<const TileAttention> all);

/// Inputs and outputs of the backward pass, which needs out and logsumexp; gradients are laid out as q, k and
/// v.
struct TileGradients {
  tiles::Heads heads;
  const std::uint16_t *out, *d_out;
  std::uint16_t *q, *k, *v;
};

/// Gradients of tile_attention(), with the same requirements.
void tile_attention_gradients(std::span<const TileGradients> all);

}  // namespace sluice::ops::cpu
