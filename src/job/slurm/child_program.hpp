// Runs another program within a deadline, for its answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct ProgramResult {
  int status = 0;      ///< exit status; 128 plus the signal's number if a signal has ended the program
  std::string output;  ///< stdout and stderr together, at most 64 KiB
};

/// Starts program words[0], looked for in PATH, without input and with no signal blocked, and waits for its
/// end. Nothing if it cannot be started, or does not end within `seconds`, when it is killed. Copies no
/// memory of this process, whatever its size.
[[nodiscard]] std::optional<ProgramResult> run_program(std::vector<std::string> words, double limit_seconds);

}  // namespace sluice
