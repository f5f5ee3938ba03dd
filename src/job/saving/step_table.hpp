// Table of checkpoints.
#pragma once

#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"

#include <string>
#include <vector>

namespace sluice {

struct StepTable {
  /// Rows of a table of checkpoints: step, time, ranks, bytes and state: "whole", "whole; the best, held out
  /// 5.12345", or what is wrong.
  std::vector<std::vector<std::string>> rows;
  ExitCode code = ExitCode::kDone;  ///< exit code for the last checkpoint that is incomplete
};

[[nodiscard]] StepTable step_table(const std::vector<StepPlace>& steps);

}  // namespace sluice
