// Progress of a job as in status.json, under the name of what is counted: "step" of "steps".
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace sluice {

/// Units of progress: the steps of a training, the sequences of an evaluation, the prompts of a generation.
/// Loads and exports count nothing.
inline constexpr std::array<std::string_view, 3> kProgressUnits{"step", "sequence", "prompt"};

struct RunProgress {
  std::string_view unit = kProgressUnits[0];  ///< unit of progress, one of kProgressUnits
  std::int64_t done = 0;                      ///< number of units done; 0: none yet
  std::int64_t total = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();               ///< loss in nats; NaN: none
  double tokens_per_second = std::numeric_limits<double>::quiet_NaN();  ///< tokens per second; NaN: not known
  /// Seconds until the end; -1: not known yet.
  double seconds_left = -1;
};

}  // namespace sluice
