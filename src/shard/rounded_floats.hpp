// Gradients as bfloat16 in the memory that they have as float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Rounds `values` to bfloat16 and writes them to `to`, which may begin at the values or lie before them.
void round_down_to(std::span<const float> values, std::byte* to);

/// Widens bfloat16 elements to `values`, which may begin at `from` or lie behind it.
void widen_up_from(const std::byte* from, std::span<float> values);

}  // namespace sluice
