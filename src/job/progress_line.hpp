// The progress of reading or writing many bytes, as a line on the console now and then.
#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace sluice {

/// A terminal's line is redrawn up to 5 times a second; anywhere else there is one line every 10 s and one at
/// the end.
enum class LineStyle : bool { kAppended, kRedrawn };

/// The style for what stdout is.
[[nodiscard]] LineStyle line_style_of_console();

class ProgressLine {
 public:
  /// `label` begins each line ("load"). The work begins now.
  explicit ProgressLine(std::string label, LineStyle style = line_style_of_console())
      : label_(std::move(label)), style_(style) {}

  /// The work begins now after all.
  void restart() { watch_.restart(); }
  /// Prints the line if it is due.
  void operator()(std::int64_t done_bytes, std::int64_t total_bytes);

  /// Text to write now: nothing, or "load  12.34 of 61.07 GB  2.31 GB/s  21 s left", with the control
  /// characters that a terminal needs. `seconds` counts from the start of the work.
  [[nodiscard]] std::string update(std::int64_t done_bytes, std::int64_t total_bytes, double seconds);

 private:
  std::string label_;
  LineStyle style_;
  Stopwatch watch_;
  double last_ = 0;
};

}  // namespace sluice
