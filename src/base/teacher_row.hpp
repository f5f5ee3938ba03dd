// Size of what a teacher says of one token, for the data that hold it and for the plans of their memory.
#pragma once

#include <cstdint>

namespace sluice {

/// Bytes of a teacher's distribution of one target: id and probability of each of `width` tokens, and the probability
/// of all others.
[[nodiscard]] constexpr std::int64_t teacher_row_bytes(std::int64_t width) { return 8 * width + 4; }

}  // namespace sluice
