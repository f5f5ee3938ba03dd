// Loops over flat gradients. Internal to src/ops.
#pragma once

#include <cstdint>

namespace sluice::ops::cpu {

/// As ops::clear(), ops::add() and ops::sum_of_squares().
void clear(float* gradients, std::int64_t n);
void add(const float* part, std::int64_t n, float* sum);
[[nodiscard]] double sum_of_squares(const float* x, std::int64_t n);

}  // namespace sluice::ops::cpu
