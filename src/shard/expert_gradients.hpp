// Where the gradients of a layer's experts lie.
#pragma once

#include <cstdint>

namespace sluice {

enum class ExpertGradients : std::uint8_t {
  kTogether,  ///< the gradients of all experts that a rank holds lie beside each other
  kInTurn     ///< all lie in one place, that of one expert, one after the other
};

}  // namespace sluice
