// Limits that decide how tokens reach the ranks of their group. Needs no LibTorch: plans of memory use them
// too.
#pragma once

namespace sluice {

/// Largest number of ranks in a group that all-gathers its tokens: a token goes to nearly all of the ranks
/// anyway, with k choices to 1 - (1 - 1/W)^k of them, 96 % for 8 choices on 3 ranks. In a larger group each
/// token is sent to the ranks of its experts.
inline constexpr int kGatheringRanks = 4;

}  // namespace sluice
