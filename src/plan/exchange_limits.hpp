// How tokens reach the ranks of their group. Needs no LibTorch: plans of memory ask as well.
#pragma once

namespace sluice {

/// Up to so many ranks a group gathers all of its tokens on each: a token goes to nearly all of the others
/// anyway, with k choices to 1 - (1 - 1/W)^k of them, 96 % for 8 choices on 3 ranks. In a larger group tokens
/// are sent where they are wanted.
inline constexpr int kGatheringRanks = 4;

}  // namespace sluice
