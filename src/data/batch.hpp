// What a rank trains on in a step.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// Consecutive sequences of a global batch.
struct Batch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  /// [sequences, length + 1], row-major: inputs are columns 0 .. length - 1, targets 1 .. length.
  std::vector<std::int64_t> ids;
};

}  // namespace sluice
