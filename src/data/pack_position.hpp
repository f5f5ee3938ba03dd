// Position in a source of packed sequences, from which reading can go on.
#pragma once

#include <cstdint>

namespace sluice {

/// Position: number of windows before the present one, over all epochs, and number of sequences that the
/// present one has given.
struct PackPosition {
  std::int64_t window = 0;
  std::int64_t given = 0;
  bool operator==(const PackPosition&) const = default;
};

}  // namespace sluice
