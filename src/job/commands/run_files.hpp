// Files of a run, by its copy of the job.
#pragma once

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
  /// job.toml. Nothing where there is none, or none that this version reads: then files are taken to have
  /// their usual names.
  std::optional<JobConfig> config{};
  std::string job_refusal{};  ///< reason why the job is not read, or ""

  /// Whether a job has left its own files here: job.toml, or a status of its state.
  [[nodiscard]] bool is_run() const;
  /// job.kind: "train", "evaluate". That of job.toml, or else of status.json, or else "train".
  [[nodiscard]] std::string kind() const;
  [[nodiscard]] std::filesystem::path answers() const;
  [[nodiscard]] std::filesystem::path checkpoints() const;
  /// The first file of metrics.
  [[nodiscard]] std::filesystem::path metrics_file() const;
  /// Metrics segments that exist, in the order in which they were written.
  [[nodiscard]] std::vector<std::filesystem::path> segments() const;
  /// Metrics with at least one row. Error(kBadData) without.
  [[nodiscard]] JoinedMetrics metrics() const;
};

/// The object in status.json of a run's directory, empty where there is no such file. Error(kBadData) if it
/// is no JSON object.
[[nodiscard]] nlohmann::json read_status(const std::filesystem::path& directory);

/// read_status(), or {} where that cannot be read: it may be another program's.
[[nodiscard]] nlohmann::json status_if_readable(const std::filesystem::path& directory);

/// A number or text of a status; nothing or "" where there is none under this key.
[[nodiscard]] std::optional<double> number_in(const nlohmann::json& status, std::string_view key);
[[nodiscard]] std::string text_in(const nlohmann::json& status, std::string_view key);

/// Whether a job with this status has told of its end.
[[nodiscard]] bool has_ended(const nlohmann::json& status);

/// How far a job is by its status, "step 3/8" or "sequence 12/400"; "-" for one that counts nothing, or
/// nothing yet.
[[nodiscard]] std::string progress_text(const nlohmann::json& status);

/// A text without its quotes, any other value as JSON.
[[nodiscard]] std::string json_text(const nlohmann::json& value);

/// Error(kBadData) if there is no such directory.
[[nodiscard]] RunFiles find_run_files(const std::filesystem::path& directory);

}  // namespace sluice
