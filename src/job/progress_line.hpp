// The load's progress as text: decides when a line is due and what it holds; the caller prints it.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

class ProgressLine {
 public:
  /// `label` begins each line ("load"). A terminal's line is redrawn up to 5 times a second; anywhere else
  /// there is one line every 10 s and one at the end.
  ProgressLine(std::string label, bool terminal) : label_(std::move(label)), terminal_(terminal) {}

  /// Text to write now: nothing, or "load  12.34 of 61.07 GB  2.31 GB/s  21 s left", with the control
  /// characters that a terminal needs. `seconds` counts from the start of the work.
  [[nodiscard]] std::string update(std::int64_t done_bytes, std::int64_t total_bytes, double seconds);

 private:
  std::string label_;
  bool terminal_;
  double last_ = 0;
};

}  // namespace sluice
