// Functions behind a short convolution.
#pragma once

#include <cstdint>

namespace sluice::ops {

/// Function that a convolution applies to its sums.
enum class ConvActivation : std::uint8_t { kNone, kSilu };

}  // namespace sluice::ops
