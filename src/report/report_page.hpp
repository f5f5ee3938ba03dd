// An HTML page that shows runs, without other files or network.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Answers to prompts at one step of a training.
struct ReportSample {
  std::int64_t step = 0;  ///< step of the training; -1: the job does not train
  std::string prompt;     ///< id of the prompt
  std::string answer;
};

/// A run as the page shows it. Its texts may have any content.
struct ReportRun {
  std::string name;
  JoinedMetrics metrics;
  std::vector<std::pair<std::string, std::string>> facts{};  ///< facts about the run: label and value
  std::string job{};                                         ///< text of the job file
  /// Names of the held-out files, in the order of the job.
  std::vector<std::string> held_out_files{};
  /// Rows of checkpoints: step, time, ranks, size, state.
  std::vector<std::vector<std::string>> checkpoints{};
  /// Rows of evaluated documents: place, tokens, loss, perplexity.
  std::vector<std::vector<std::string>> documents{};
  std::vector<ReportSample> samples{};
  std::vector<std::string> notes{};  ///< texts about files that could not be read, with the reason
};

inline constexpr std::int64_t kMostPageBytes = 2'000'000;

/// HTML page of all runs on the same axes. Long runs are thinned until the page has less than kMostPageBytes;
/// Error(kUsage) if there are too many runs for it.
[[nodiscard]] std::string report_page(std::span<const ReportRun> runs);

}  // namespace sluice
