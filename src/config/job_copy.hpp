// Copy of a job in its run directory, job.toml: every key, and the directory in which the job was started.
#pragma once

#include "config/job_config.hpp"

#include <filesystem>
#include <string>

namespace sluice {

inline constexpr const char* kJobCopyFile = "job.toml";

/// A run's copy of its job file, read back.
struct JobCopy {
  JobConfig config;
  /// Directory, absolute, in which relative paths of the job begin; "" if the copy does not tell, as copies
  /// of earlier versions do not.
  std::filesystem::path started_in;
};

/// Text of the copy of a job; a comment names the directory.
[[nodiscard]] std::string job_copy_text(const JobConfig& config, const std::filesystem::path& started_in);

/// Whether a file begins as job_copy_text() does; false if it cannot be read.
[[nodiscard]] bool is_job_copy(const std::filesystem::path& file);

/// Reads a copy. Errors as load_job_config().
[[nodiscard]] JobCopy read_job_copy(const std::filesystem::path& file);

/// A path of a job that was started in `started_in`, as seen from here; a relative path stays as it is if
/// `started_in` is "".
[[nodiscard]] std::filesystem::path from_start(const std::filesystem::path& started_in,
                                               const std::filesystem::path& path);

}  // namespace sluice
