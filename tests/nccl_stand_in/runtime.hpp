// What the parts of the stand-in for CUDA's runtime share.
#pragma once

#include <cstddef>

namespace sluice::stand_in {

/// Memory of each GPU.
inline constexpr std::size_t kGpuBytes = std::size_t{1} << 30;

}  // namespace sluice::stand_in
