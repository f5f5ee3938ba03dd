#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/outcome.hpp"
#include "config/expand.hpp"
#include "config/job_config.hpp"
#include "config/toml_source.hpp"
#include "io/file.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/job_scripts.hpp"
#include "job/console.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTaskVariable = "SLURM_ARRAY_TASK_ID";

/// A word as a shell reads it.
std::string shell_word(std::string_view word) {
  std::string out = "'";
  for (const char c : word)
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  return out + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) out.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(out, " "));
}

/// What the scripts leave to their caller, in lines that begin so.
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

/// The value of an option of sbatch, which is "--array=1-3", "--array", "1-3", "-a1-3" or "-a", "1-3"; nothing without it.
std::optional<std::string> option_value(const std::vector<std::string>& options, std::string_view name,
                                        std::string_view letter) {
  for (auto word = options.begin(); word != options.end(); ++word) {
    const std::string_view text = *word;
    if ((text == name || text == letter) && word + 1 != options.end()) return word[1];
    if (text.starts_with(name) && text.substr(name.size()).starts_with('='))
      return std::string(text.substr(name.size() + 1));
    if (!letter.empty() && text.starts_with(letter) && !text.starts_with("--"))
      return std::string(text.substr(letter.size()));
  }
  return std::nullopt;
}

/// The number of an array's first task: "1" of "1-3", "0" of "0,5%2".
std::string first_task(const std::string& array) {
  const std::string digits = array.substr(0, array.find_first_not_of("0123456789"));
  if (digits.empty())
    fail(ExitCode::kUsage, "--array: found {}, expected the numbers of tasks, such as 1-3", printable(array));
  return digits;
}

/// job.output with what Slurm puts in for the number of a task.
fs::path output_of_tasks(const JobArguments& job, const JobConfig& config) {
  constexpr std::int64_t kMostBytes = kMiB;
  const auto written =
      written_text(read_text_file(job.file, kMostBytes), job.file.string(), job.overrides, "job", "output");
  ::setenv(kTaskVariable, "%a", /*overwrite=*/1);
  return written ? fs::path(expand_path(*written).text) : config.job.output;
}

/// Where the script and the log go. The tasks of an array have a run directory each if job.output names their number, which Slurm
/// writes %a; they share a script.
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

void write_script(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error)
    fail(ExitCode::kIo, "cannot create the directory {}: {}", file.parent_path().string(), error.message());
  write_text_file(file, text);
}

[[noreturn]] void become(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  const int error = errno;
  fail(ExitCode::kUsage, "{} could not be started: {}{}", words.front(), errno_text(error),
       error == ENOENT ? ". Is this a machine that submits to Slurm?" : "");
}

}  // namespace

int submit_command(const SubmitArguments& arguments) {
  const auto array = option_value(arguments.sbatch_options, "--array", "-a");
  if (array) ::setenv(kTaskVariable, first_task(*array).c_str(), /*overwrite=*/1);
  const JobConfig config = load_job_config(arguments.job.file, arguments.job.overrides);
  const Places places =
      places_of(array ? output_of_tasks(arguments.job, config) : config.job.output, array.has_value());
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
  write_script(places.script, script);
  if (array) ::unsetenv(kTaskVariable);
  become(std::move(words));
}

}  // namespace sluice
