#include "base/bytes.hpp"
#include "base/error.hpp"
#include "config/expand.hpp"
#include "config/job_config.hpp"
#include "config/toml_source.hpp"
#include "io/child_process.hpp"
#include "io/child_program.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"
#include "launch/slurm/submission.hpp"
#include "process/console.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

struct SubmitArguments {
  JobArguments job;
  bool with_mpirun = false;  ///< whether ranks are started by mpirun instead of srun
  /// Whether script and command are only printed, and nothing is changed.
  bool dry_run = false;
  bool checks = true;                       ///< whether the job is checked first, as by check_command
  bool test_only = false;                   ///< whether Slurm only tells if and when it would start the job
  std::vector<std::string> sbatch_options;  ///< options of sbatch that replace those of the script
};

namespace fs = std::filesystem;

constexpr const char* kTaskVariable = "SLURM_ARRAY_TASK_ID";

std::string shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) out.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(out, " "));
}

/// A line of the scripts that is filled in, found by its beginning.
struct Line {
  std::string_view begin;
  std::string text;
};

std::string with_lines(std::string_view script, const std::vector<Line>& lines) {
  std::string out;
  std::size_t replaced = 0;
  while (!script.empty()) {
    std::string line(script.substr(0, script.find('\n')));
    script.remove_prefix(std::min(line.size() + 1, script.size()));
    for (const Line& other : lines)
      if (line.starts_with(other.begin)) {
        line = other.text;
        ++replaced;
      }
    out += line + "\n";
  }
  SLUICE_ASSERT(replaced == lines.size(), "the script has {} of {} lines", replaced, lines.size());
  return out;
}

/// Run directory of an array's task: job.output with the task's number; for task "%a" with Slurm's
/// placeholder.
fs::path output_of_task(const JobArguments& job, const std::string& task) {
  constexpr std::int64_t kMostBytes = kMiB;
  const auto written =
      written_text(read_text_file(job.file, kMostBytes), job.file.string(), job.overrides, "job", "output");
  ::setenv(kTaskVariable, task.c_str(), /*overwrite=*/1);
  return expand_path(written.value_or("")).text;
}

/// Paths of the script and the log. Tasks of an array share a script; they have run directories of their own
/// if job.output has their number, which Slurm writes %a.
struct Places {
  fs::path script;
  fs::path log;
  std::string name;
};

Places places_of(const fs::path& output, bool is_array) {
  const fs::path run = fs::absolute(output).lexically_normal();
  const fs::path plain = run.has_filename() ? run : run.parent_path();
  std::string name = plain.filename().string();
  Places places{{}, plain.parent_path() / (name + (is_array ? "-%A_%a.out" : "-%j.out")), name};
  if (const std::size_t task = name.find("%a"); task != std::string::npos)
    places.name.replace(task, 2, "array");
  places.script = plain.parent_path() / places.name / "submit.sbatch";
  return places;
}

std::string script_for(const SubmitArguments& arguments, const Places& places) {
  std::vector<std::string> job{fs::absolute(arguments.job.file).lexically_normal().string()};
  for (const std::string& change : arguments.job.overrides) job.insert(job.end(), {"--set", change});
  return with_lines(arguments.with_mpirun ? mpirun_script() : srun_script(),
                    {{"#SBATCH --job-name=", "#SBATCH --job-name=" + shell_word(places.name)},
                     {"#SBATCH --output=", "#SBATCH --output=" + shell_word(places.log.string())},
                     {"cd ", "cd " + shell_word(fs::current_path().string()) + " || exit"},
                     {"sluice=", "sluice=" + shell_word(fs::read_symlink("/proc/self/exe").string())},
                     {"job=", "job=(" + shell_words(job) + ")"}});
}

[[noreturn]] void become(const std::vector<std::string>& words) {
  const int error = become_program(words);
  fail(ExitCode::kUsage, "{} could not be started: {}{}", words.front(), errno_text(error),
       error == ENOENT ? ". Is this a machine that submits to Slurm?" : "");
}

/// Checks the job for everything except memory, because the nodes have other memory than this machine.
/// Returns the exit code of the first finding; kDone also if the checks take longer than a user would wait.
int check_before(const SubmitArguments& arguments) {
  constexpr double kSeconds = 600;
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe").string(),
                                 "check",
                                 arguments.job.file.string(),
                                 "--memory",
                                 "1000000TB",
                                 "--ranks",
                                 fmt::format("{}", rank_count(arguments.sbatch_options))};
  for (const std::string& change : arguments.job.overrides) words.insert(words.end(), {"--set", change});
  const std::optional<ProgramResult> answer = run_program(words, kSeconds);
  if (!answer || answer->status == 0) return 0;
  console::report(answer->output + "sluice: nothing was submitted; --no-check submits it all the same");
  return answer->status;
}

/// A run directory, and the suffix of its job's number: "_3" for a task of an array.
struct SubmittedRun {
  fs::path directory;
  std::string task;
};

std::vector<SubmittedRun> runs_of(const SubmitArguments& arguments, const JobConfig& config,
                                  const std::vector<std::int64_t>& tasks) {
  if (tasks.empty()) return {{config.job.output, ""}};
  std::vector<SubmittedRun> runs;
  for (const std::int64_t task : tasks) {
    const std::string number = fmt::format("{}", task);
    runs.push_back({output_of_task(arguments.job, number), "_" + number});
  }
  return runs;
}

/// Submits by sbatch, and records the job's number from its answer for sluice status. Returns sbatch's exit
/// status.
int submit(const std::vector<std::string>& words, const std::vector<SubmittedRun>& runs) {
  constexpr double kSeconds = 600;
  const std::optional<ProgramResult> answer = run_program(words, kSeconds);
  if (!answer) become(words);
  const std::string text = answer->output.substr(0, answer->output.find_last_not_of('\n') + 1);
  if (answer->status != 0) {
    console::report(text);
    return answer->status;
  }
  console::write_line(text);
  const std::string job = job_in_answer(text);
  if (job.empty()) return 0;
  for (const SubmittedRun& run : runs) {
    make_directories(run.directory);
    note_submission(run.directory, job + run.task);
  }
  return 0;
}

bool waits_for_end(const std::vector<std::string>& options) {
  return std::ranges::any_of(options,
                             [](const std::string& word) { return word == "--wait" || word == "-W"; });
}

/// Writes a script for the job into its run directory, calls sbatch, and records the job for status_command.
/// Error(kBadConfig) for a faulty job file, Error(kUsage) without sbatch; else the exit code of the first
/// finding, or sbatch's exit status.
int submit_command(const SubmitArguments& arguments) {
  const auto array = option_value(arguments.sbatch_options, "--array", "-a");
  const std::vector<std::int64_t> tasks = array ? task_numbers(*array) : std::vector<std::int64_t>();
  const auto become_first_task = [&] {
    if (array) ::setenv(kTaskVariable, fmt::format("{}", tasks.front()).c_str(), /*overwrite=*/1);
  };
  become_first_task();
  const JobConfig config = load_job_config(arguments.job.file, arguments.job.overrides);
  const Places places =
      places_of(array ? output_of_task(arguments.job, "%a") : config.job.output, array.has_value());
  const std::string script = script_for(arguments, places);
  std::vector<std::string> words{"sbatch"};
  if (arguments.test_only) words.emplace_back("--test-only");
  words.insert(words.end(), arguments.sbatch_options.begin(), arguments.sbatch_options.end());
  words.push_back(places.script.string());
  if (arguments.dry_run) {
    console::raw(script);
    console::line("# {}: as above\n# {}", places.script.string(), shell_words(words));
    return 0;
  }
  become_first_task();
  if (const int code = arguments.checks ? check_before(arguments) : 0; code != 0) return code;
  const std::vector<SubmittedRun> runs = runs_of(arguments, config, tasks);
  make_directories(places.script.parent_path());
  write_text_file(places.script, script);
  if (array) ::unsetenv(kTaskVariable);
  if (arguments.test_only || waits_for_end(arguments.sbatch_options)) become(words);
  return submit(words, runs);
}

}  // namespace

void add_submit(CommandLine& line) {
  const auto [command, arguments] = add_command<SubmitArguments>(
      line, "submit", "Write a job script into the run directory and call sbatch", submit_command);
  add_job_arguments(command, arguments.job);
  command.add_flag("--mpirun", arguments.with_mpirun, "Start ranks with mpirun instead of srun");
  command.add_flag("--dry-run", arguments.dry_run, "Print the script and the command, and do nothing");
  command.add_flag("!--no-check", arguments.checks, "Do not look for what the job would fail for first");
  command.add_flag("--test-only", arguments.test_only, "Let Slurm say when it would start the job");
  command.add_option("options", arguments.sbatch_options, "Options of sbatch, behind --");
}

}  // namespace sluice
