// Bytes of optimizer state. Needs no LibTorch: plans of memory ask as well.
#pragma once

#include "base/dtype.hpp"

#include <cstdint>

namespace sluice {

/// Bytes of AdamW's state per weight: two float32 moments, and float32 master weights where `weights` are not
/// float32 themselves.
[[nodiscard]] constexpr std::int64_t adamw_bytes_per_element(DType weights) {
  return weights == DType::kFloat32 ? 8 : 12;
}

}  // namespace sluice
