// Progress of reading or writing many bytes, as lines on the console.
#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

/// How progress is printed: a terminal's line is redrawn up to 5 times per second; elsewhere a line is
/// printed every 10 s, and one at the end.
enum class LineStyle : bool { kAppended, kRedrawn };

/// Style for the present stdout.
[[nodiscard]] LineStyle line_style_of_console();

class ProgressLine {
 public:
  /// `label` begins each line ("load"). The work begins with the constructor.
  explicit ProgressLine(std::string label, LineStyle style = line_style_of_console())
      : label_(std::move(label)), style_(style) {}

  /// Sets the beginning of the work to now.
  void restart() { watch_.restart(); }
  /// Prints the line if it is due.
  void operator()(std::int64_t done_bytes, std::int64_t total_bytes);

  /// Text to write now: "", or "load  12.34 of 61.07 GB  2.31 GB/s  21 s left", with the control characters
  /// that a terminal needs. `seconds` counts from the beginning of the work.
  [[nodiscard]] std::string update(std::int64_t done_bytes, std::int64_t total_bytes, double seconds);

 private:
  std::string label_;
  LineStyle style_;
  Stopwatch watch_;
  double last_ = 0;
};

}  // namespace sluice
