// job.toml in a run's directory: the job with every key, and the directory that it was started in.
#pragma once

#include "config/job_config.hpp"

#include <filesystem>
#include <string>

namespace sluice {

inline constexpr const char* kJobCopyFile = "job.toml";

/// A run's copy of its job file, read back.
struct JobCopy {
  JobConfig config;
  /// The directory where relative paths of the job begin, absolute; "" where an earlier version did not write
  /// it down.
  std::filesystem::path started_in;
};

/// The text of the copy; a comment names the directory.
[[nodiscard]] std::string job_copy_text(const JobConfig& config, const std::filesystem::path& started_in);

/// Whether a file begins as job_copy_text() does; false if it cannot be read.
[[nodiscard]] bool is_job_copy(const std::filesystem::path& file);

/// Errors as load_job_config().
[[nodiscard]] JobCopy read_job_copy(const std::filesystem::path& file);

/// `path`, which a job that was started in `started_in` names. Relative ones stay so where that is "".
[[nodiscard]] std::filesystem::path from_start(const std::filesystem::path& started_in,
                                               const std::filesystem::path& path);

}  // namespace sluice
