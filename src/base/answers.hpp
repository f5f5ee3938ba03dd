// Choice between the answers of a row of preferences.
#pragma once

#include <cstdint>

namespace sluice {

/// Answers that are taken from a row with a chosen and a rejected one.
enum class Answers : std::uint8_t {
  kAuto,      ///< the chosen one, with a line that says so
  kChosen,    ///< the chosen one
  kRejected,  ///< the rejected one
  kPair,      ///< both: each row must have two
};

}  // namespace sluice
