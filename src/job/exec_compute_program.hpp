// Replaces this program by the one with LibTorch, for jobs that compute.
#pragma once

#include "config/job_config.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Arguments of commands that take a job file.
struct JobArguments {
  std::filesystem::path file;
  std::vector<std::string> overrides;  ///< values of --set: "table.key=value"
};

/// Path of the program that runs jobs of a kind; nothing if this one does. Error(kBadConfig) if it is not in
/// this program's directory.
[[nodiscard]] std::optional<std::filesystem::path> find_compute_program(JobKind kind);

/// If the job's kind runs in another program, replaces this process by that one with the same command line
/// `words` (without the program), which keeps its rank: nothing of MPI may have started. Errors as
/// find_compute_program(); Error(kInternal) if the system refuses to start it.
void exec_compute_program(const JobConfig& config, const std::vector<std::string>& words);

/// Command line of `run` with these arguments.
[[nodiscard]] std::vector<std::string> run_words(const JobArguments& arguments);

}  // namespace sluice
