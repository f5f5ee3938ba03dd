// Position in a source of packed sequences, to go on from there.
#pragma once

#include <cstdint>

namespace sluice {

/// How many windows lie before the one that it is in, over all epochs, and how many sequences it has given
/// since that one began.
struct PackPosition {
  std::int64_t window = 0;
  std::int64_t given = 0;
  bool operator==(const PackPosition&) const = default;
};

}  // namespace sluice
