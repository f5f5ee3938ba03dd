// Reads standard input line by line, without waiting for long.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

class InputLines {
 public:
  enum class Found : std::uint8_t { kNothing, kLine, kEnd };

  /// Reads the next line into `line`; if none comes within a second, `line` becomes "" and the result says
  /// what came instead.
  [[nodiscard]] Found next(std::string& line);

 private:
  bool take(std::string& line);

  std::string text_;  ///< bytes that were read but belong to no complete line yet
};

}  // namespace sluice
