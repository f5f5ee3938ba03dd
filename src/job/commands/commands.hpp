// The commands of the program. Each returns the process's exit status, prints its result to stdout and throws
// Error for what goes wrong; run_command alone reports failures by itself, since other ranks are involved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct JobArguments {
  std::filesystem::path file;
  std::vector<std::string> overrides;  ///< "table.key=value"
};

/// Runs a job on all ranks. Collective over the processes that mpirun or srun started.
[[nodiscard]] int run_command(const JobArguments& arguments);

struct CheckArguments {
  JobArguments job;
  int ranks = 1;
  std::optional<std::int64_t> memory_bytes;  ///< of one rank; else what this machine has left
};
/// All that a run would fail for, in this process alone, without GPU or launch: configuration, model, place
/// of the results, tokens, memory, the weights' headers and the plans. The exit status is that of the first
/// finding in the order in which a run would meet them.
int check_command(const CheckArguments& arguments);

struct PlanArguments {
  JobArguments job;  ///< its file may be a model directory or a config.json: a training job with all defaults
  int ranks = 1;
  std::optional<std::int64_t> memory_bytes;  ///< of one rank
  std::optional<std::int64_t> disk_rate;     ///< bytes that a rank's disk reads or writes in a second
  bool json = false;
};
/// Bytes per rank for each purpose, and whether they fit.
int plan_command(const PlanArguments& arguments);

struct SynthesizeArguments {
  std::filesystem::path config_directory;
  std::filesystem::path output;
  std::uint64_t seed = 0;
  bool sparse = false;
};
int synthesize_command(const SynthesizeArguments& arguments);

struct InspectArguments {
  std::filesystem::path model;  ///< a directory, or its config.json
  bool json = false;
};
/// What a model is made of, from config.json and, if there are weights, the headers of their files.
int inspect_command(const InspectArguments& arguments);

struct VerifyArguments {
  std::filesystem::path directory;
  std::optional<std::filesystem::path> other;
  bool json = false;
};
/// Reads every tensor of a model directory and checks its index and values; with a second directory, checks
/// that both hold the same, whatever their layout and files. Needs no config.json. Error(kBadData), after the
/// summary, if a value is not finite or the two differ.
int verify_command(const VerifyArguments& arguments);

}  // namespace sluice
