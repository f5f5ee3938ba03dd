// Standard input, line by line, without waiting for long.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

class InputLines {
 public:
  enum class Found : std::uint8_t { kNothing, kLine, kEnd };

  /// Fills `line` with the next line, or makes it "" and says what else a wait of a second at most has
  /// brought.
  [[nodiscard]] Found next(std::string& line);

 private:
  bool take(std::string& line);

  std::string text_;  ///< bytes that were read and are of no line yet
};

}  // namespace sluice
