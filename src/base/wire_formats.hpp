// Formats of what ranks send to each other in a step.
#pragma once

#include "base/dtype.hpp"

#include <cstdint>

namespace sluice {

/// Format of tokens on their way to experts, and in backward of the gradients of the experts' outputs.
enum class TokenFormat : std::uint8_t {
  kDType,  ///< numbers of the type that model.dtype names
  kInt8,   ///< 8-bit integers with a float32 scale for each 128 elements
};

struct WireFormats {
  /// type of each rank's part of a gradient on its way to the rank that adds them up: float32 or bfloat16
  DType gradients = DType::kFloat32;
  TokenFormat tokens = TokenFormat::kDType;
};

}  // namespace sluice
