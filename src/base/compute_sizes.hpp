// How much is computed at once: sizes that operations work in, and that plans of memory count with.
#pragma once

#include "base/bytes.hpp"

#include <cstdint>

namespace sluice {

/// Rows that an expert works on at once, at most.
inline constexpr std::int64_t kExpertBlockRows = 512;
/// Rows of several experts that a device works on at once, at most, in blocks of such.
inline constexpr std::int64_t kExpertGroupRows = 4096;

/// Positions of a chunk of the gated delta rule, and chunks that a device works on side by side.
inline constexpr std::int64_t kDeltaChunkPositions = 64, kDeltaChunksOnDevice = 8;

/// Logits that the loss keeps for its gradient, so that they are not computed twice.
inline constexpr std::int64_t kKeptLogitBytes = 16 * kMiB;
/// Tokens that the loss works on at once, at most; of so many it keeps the logits.
inline constexpr std::int64_t kLossTokens = 1024, kKeptLogitTokens = 512;
/// Rows of the vocabulary that it works on at once: with the tokens few enough that products run in cache; on
/// a device so many that starting the work of a tile costs little beside it.
inline constexpr std::int64_t kLossTileRows = 1024, kLossTileRowsOnDevice = 4096;

}  // namespace sluice
