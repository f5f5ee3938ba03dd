// The commands of the program. Each returns the process's exit status, prints its result to stdout and throws
// Error for what goes wrong; run_command alone reports failures by itself, since other ranks are involved.
#pragma once

#include "corpus/tokenize.hpp"

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

struct LaunchArguments {
  JobArguments job;
  int ranks = 1;
  std::vector<std::string> launcher_options;  ///< of mpirun
  std::vector<std::string> command{};  ///< that ranks run in place of the job: {"generate", "models/m", ...}
};
/// Runs a job under mpirun (or the launcher that the variable MPIRUN names) and returns the job's exit status. The first signal
/// that asks for it (job/signal_watch.hpp) lets the job finish its step and save; the second is passed on as it is.
int launch_command(const LaunchArguments& arguments);

struct GenerateArguments {
  std::filesystem::path source;            ///< model directory, run, directory of saved steps, or a step
  std::vector<std::string> texts;          ///< prompts
  std::vector<std::string> prompt_tokens;  ///< more, each "5,17,42"
  std::filesystem::path prompts;           ///< a file of them, as read_prompts()
  std::vector<std::string> stops;          ///< texts that end an answer
  bool chat = false;                       ///< prompts are what a user says
  bool is_conversation = false;            ///< they are read from standard input, and answered one by one
  std::string system;                      ///< of a conversation
  bool print_tokens = false;
  bool json = false;
  std::vector<std::string> settings;   ///< "generate.top_k=5", of options
  std::vector<std::string> overrides;  ///< of --set
  std::vector<std::string> words;      ///< this command line, without the program
};
/// Answers prompts with a model. Collective over the processes that mpirun or srun started, as run_command().
[[nodiscard]] int generate_command(const GenerateArguments& arguments);

struct SubmitArguments {
  JobArguments job;
  bool with_mpirun = false;                 ///< instead of srun
  bool dry_run = false;                     ///< print the script and the command, and change nothing
  bool checks = true;                       ///< first looks for what the job would fail for, as check_command
  bool test_only = false;                   ///< let Slurm say whether and when it would start the job
  std::vector<std::string> sbatch_options;  ///< they replace those of the script
};
/// Writes a script for the job into its run directory, calls sbatch and notes the job for status_command. Error(kBadConfig) for a
/// job file that is not right, Error(kUsage) if there is no sbatch; else the exit code of what the job would fail for, or sbatch's
/// exit status.
int submit_command(const SubmitArguments& arguments);

struct RequeueArguments {
  JobArguments job;
  int limit = 3;  ///< restarts in a row that have saved no later step
};
/// For scripts that Slurm runs, after a job has ended with kResumable: puts the Slurm job back into the queue, unless Slurm does
/// that itself, somebody has cancelled it, or restarting brings nothing. The exit status is kDone but in the last case.
int requeue_command(const RequeueArguments& arguments);

struct StatusArguments {
  std::vector<std::filesystem::path> runs;
  bool json = false;
};
/// How far runs are, running and ended ones. Error(kBadData) for a directory that is none of a run.
int status_command(const StatusArguments& arguments);

struct MergeArguments {
  std::filesystem::path run;     ///< a run's directory, or the first of its metrics files
  std::filesystem::path output;  ///< a new file
};
/// Joins the metrics files of a run that was resumed.
int metrics_merge_command(const MergeArguments& arguments);

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

/// Texts and conversations to a token file. Returns 0, or 128 + a signal's number if one ended it, with nothing written.
int tokenize_command(corpus::TokenizeOptions options);

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

struct CheckpointArguments {
  std::filesystem::path run;  ///< a run's directory, one of saved steps, or a step
  std::optional<std::int64_t>
      step;                      ///< or kNewestStep or kBestStep; else all of them, or to export the newest
  bool merge = false;            ///< exports adapters as a part of the model that they were trained on
  std::filesystem::path output;  ///< to export to
};
/// The saved steps of a run and whether they are whole: Error(kBadData) if there are none; the exit status of one that is not.
int checkpoint_list_command(const CheckpointArguments& arguments);
/// Reads every byte of them: Error(kBadData), after all were read, if one is not what was saved.
int checkpoint_verify_command(const CheckpointArguments& arguments);
/// Writes a Hugging Face directory from the weights of a step, or one for PEFT from its adapters, in a few buffers of some MiB.
int checkpoint_export_command(const CheckpointArguments& arguments);

struct ReportArguments {
  std::vector<std::filesystem::path> runs;  ///< directories
  std::filesystem::path output;             ///< "": report.html in the first of them
};
/// Writes one HTML page of runs of trainings, which may still go on: Error(kBadData) if one has no metrics.
int report_command(const ReportArguments& arguments);

struct MetricsExportArguments {
  std::filesystem::path run;
  bool csv = false, jsonl = false, tensorboard = false;  ///< one of them
  std::filesystem::path output;  ///< "": in the run: metrics.csv, metrics.jsonl, tensorboard/
};
/// Writes the metrics of a training in another format: Error(kBadData) if it has none.
int metrics_export_command(const MetricsExportArguments& arguments);

struct TopArguments {
  std::filesystem::path run;
  double seconds = 2;  ///< between two looks
};
/// Shows where a run is, from its files alone: on a terminal again and again until the job has ended, elsewhere once.
int top_command(const TopArguments& arguments);

}  // namespace sluice
