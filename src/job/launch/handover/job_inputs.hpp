// Files that a job's ranks read on every host, and that the launch's host has.
#pragma once

#include "config/job_config.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A file that every host needs at the same path.
struct JobInput {
  std::filesystem::path path;  ///< absolute path
  /// Content for other hosts; nothing: the file's own content.
  std::optional<std::string> content{};
  /// Whether a host keeps its own file at this path, whatever its content.
  bool stays = false;
};

/// The files that each rank of a job reads, as far as they are on this host: the job file, token files,
/// prompts, what lies beside the weights of a model directory, an adapter that PEFT saved, and of each saved
/// step that the job names as a model or an adapter its manifest and companion files. Not the weights of
/// models and steps, which load.readers = "rank0" reads on rank 0's host alone: other hosts get a manifest
/// that says that they lie on this one.
[[nodiscard]] std::vector<JobInput> job_inputs(const std::filesystem::path& job_file,
                                               const JobConfig& config);

}  // namespace sluice
