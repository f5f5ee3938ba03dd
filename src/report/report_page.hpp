// One HTML page that shows runs, by itself: no other file, no network.
#pragma once

#include "report/joined_metrics.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Answers to the prompts at one step of a training.
struct ReportSample {
  std::int64_t step = 0;  ///< -1: of a job that does not train
  std::string prompt;     ///< id of the prompt
  std::string answer;
};

/// A run as the page shows it. Texts may hold anything.
struct ReportRun {
  std::string name;
  JoinedMetrics metrics;
  std::vector<std::pair<std::string, std::string>> facts{};  ///< label and value
  std::string job{};                                         ///< the job file
  std::vector<std::string> held_out_files{};                 ///< names, in the order of the job
  std::vector<std::vector<std::string>> checkpoints{};       ///< step, time, ranks, size, state
  std::vector<std::vector<std::string>> documents{};         ///< evaluated: place, tokens, loss, perplexity
  std::vector<ReportSample> samples{};
  std::vector<std::string> notes{};  ///< what could not be read, and why
};

inline constexpr std::int64_t kMostPageBytes = 2'000'000;

/// HTML page of all runs on the same axes. Long runs are thinned until the page has less than kMostPageBytes;
/// Error(kUsage) if there are too many runs for it.
[[nodiscard]] std::string report_page(std::span<const ReportRun> runs);

}  // namespace sluice
