// Where the gradients of a layer's experts lie in memory.
#pragma once

#include <cstdint>

namespace sluice {

enum class ExpertGradients : std::uint8_t {
  kTogether,  ///< the gradients of all experts that a rank holds lie side by side
  kInTurn     ///< the gradients of one expert at a time lie in one place, which all experts use in turn
};

}  // namespace sluice
