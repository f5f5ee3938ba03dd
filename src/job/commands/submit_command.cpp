#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/outcome.hpp"
#include "config/job_config.hpp"
#include "io/file.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/job_scripts.hpp"
#include "job/console.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
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

bool asks_for_array(const std::vector<std::string>& options) {
  for (const std::string& option : options)
    if (option.starts_with("--array") || option.starts_with("-a")) return true;
  return false;
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
  fail(ExitCode::kUsage, "{} could not be started: {}. Is this a machine that submits to Slurm?",
       words.front(), errno_text(errno));
}

}  // namespace

int submit_command(const SubmitArguments& arguments) {
  // Slurm numbers the tasks later.
  const bool is_array = asks_for_array(arguments.sbatch_options);
  if (is_array) ::setenv(kTaskVariable, "%a", /*overwrite=*/0);
  const JobConfig config = load_job_config(arguments.job.file, arguments.job.overrides);
  const Places places = places_of(config.job.output, is_array);
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
  ::unsetenv(kTaskVariable);
  become(std::move(words));
}

}  // namespace sluice
