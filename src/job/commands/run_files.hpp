// Files of a run, found by its copy of the job, and what commands print about them.
#pragma once

#include "checkpoint/step_directory.hpp"
#include "config/job_config.hpp"
#include "report/joined_metrics.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct RunFiles {
  std::filesystem::path directory;
  /// Job in the run's job.toml; nothing if there is none that this version reads: then files are assumed to
  /// have their usual names.
  std::optional<JobConfig> config{};
  std::string job_refusal{};  ///< reason why job.toml was not read, or ""

  /// Whether a job has left its own files in the directory: job.toml, or a status with its state.
  [[nodiscard]] bool is_run() const;
  /// Kind of the job: job.kind in job.toml, or else in status.json, or else "train".
  [[nodiscard]] std::string kind() const;
  [[nodiscard]] std::filesystem::path answers() const;
  [[nodiscard]] std::filesystem::path checkpoints() const;
  /// Path of the run's first metrics file.
  [[nodiscard]] std::filesystem::path metrics_file() const;
  /// Metrics files that exist, in the order in which they were written.
  [[nodiscard]] std::vector<std::filesystem::path> segments() const;
  /// Metrics of all files. Error(kBadData) if they have no rows.
  [[nodiscard]] JoinedMetrics metrics() const;
};

/// Files of a run's directory. Error(kBadData) if there is no such directory.
[[nodiscard]] RunFiles find_run_files(const std::filesystem::path& directory);

/// Checkpoints as JSON, whose manifests it reads: an object for each, with `step`, `path` and `whole`; `saved`, `ranks`
/// and `bytes` of one that is, and `best_held_out_loss` of the best; `id`, `code` and `text` of one that is not.
[[nodiscard]] nlohmann::json list_as_json(const std::vector<StepPlace>& steps);
/// Rows of a table of these checkpoints: step, time, ranks, bytes and state: "whole", "whole; the best, held out
/// 5.12345", or what is wrong.
[[nodiscard]] std::vector<std::vector<std::string>> rows_of_steps(const nlohmann::json& steps);

}  // namespace sluice
