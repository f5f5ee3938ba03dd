// Another program's answer, within a deadline.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct ProgramResult {
  int status = 0;      ///< exit status; 128 and the signal's number where one has ended it
  std::string output;  ///< stdout and stderr together, at most 64 KiB
};

/// Starts words[0], looked for in PATH, without input and with no signal blocked, and waits for its end.
/// Nothing if it cannot be started or has not ended within so many seconds, when it is killed. No memory of
/// this process is copied, whatever its size.
[[nodiscard]] std::optional<ProgramResult> run_program(std::vector<std::string> words, double limit_seconds);

}  // namespace sluice
