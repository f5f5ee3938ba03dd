// Sizes of what is computed at once, for operations and for the plans of their memory.
#pragma once

#include "base/bytes.hpp"

#include <cstdint>

namespace sluice {

/// Most rows of one expert that are computed at once.
inline constexpr std::int64_t kExpertBlockRows = 512;
/// Most rows of several experts that a device computes at once.
inline constexpr std::int64_t kExpertGroupRows = 4096;

/// Positions in a chunk of the gated delta rule, and number of chunks that a device computes side by side.
inline constexpr std::int64_t kDeltaChunkPositions = 64, kDeltaChunksOnDevice = 8;

/// Most bytes of logits that the loss keeps for its gradient, so that they are not computed twice.
inline constexpr std::int64_t kKeptLogitBytes = 16 * kMiB;
/// Most tokens that the loss computes at once, and most tokens whose logits it keeps.
inline constexpr std::int64_t kLossTokens = 1024, kKeptLogitTokens = 512;
/// Rows of the vocabulary that the loss computes at once: few enough that products with the tokens stay in
/// cache; on a device so many that launching a tile costs little beside its work.
inline constexpr std::int64_t kLossTileRows = 1024, kLossTileRowsOnDevice = 4096;

}  // namespace sluice
