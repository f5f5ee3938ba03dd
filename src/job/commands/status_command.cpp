#include "base/error.hpp"
#include "base/text.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"
#include "job/slurm/submission.hpp"
#include "process/console.hpp"
#include "process/run_lock.hpp"
#include "process/status_file.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct StatusArguments {
  std::vector<std::filesystem::path> runs;
  bool json = false;
};

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Adds Slurm's state of a job that was submitted after the status was written; a recorded end stays if Slurm
/// does not know the job any more.
void add_submission(const fs::path& run, Json& status) {
  const std::optional<Submission> submission = read_submission(run);
  if (!submission) return;
  if (text_in(status, "updated") > submission->submitted) return;
  const std::string state = queue_state(submission->slurm_job);
  if (state == "gone" && !status.empty()) return;
  status["state"] = state;
  status["slurm_job"] = submission->slurm_job;
  for (const char* ending : {"exit_code", "id", "message"}) status.erase(ending);
}

/// Status of a run; nothing for a directory or file that is not a run's.
std::optional<Json> find_status(const fs::path& run) {
  Json status = read_status(run);
  add_submission(run, status);
  if (status.empty()) return std::nullopt;
  if (text_in(status, "state").empty())
    fail({ExitCode::kBadData, "job.not_a_run"}, "{}: found no status of a run",
         (run / "status.json").string());
  // Marks a run that was killed before it could record its end.
  if (!status.contains("exit_code") && !status.contains("slurm_job") && !is_running(run, status))
    status["state"] = "killed";
  status["run"] = run.string();
  return status;
}

[[noreturn]] void refuse_no_run(const std::string& run) {
  fail({ExitCode::kBadData, "job.not_a_run"},
       "{}: there is no status.json; expected a run directory, the job.output of a job", printable(run));
}

/// Table cell with a text of the status, "-" if it has none.
std::string text_cell(const Json& status, const char* key) {
  const std::string text = text_in(status, key);
  return text.empty() ? "-" : printable(text);
}

std::string number_cell(const Json& status, const char* key, fmt::format_string<double&> format) {
  std::optional<double> number = number_in(status, key);
  return number ? fmt::format(format, *number) : "-";
}

std::vector<std::string> row_of(const Json& status) {
  const bool has_ended = status.contains("exit_code") || status["state"] == "killed";
  const std::string saved = number_cell(status, "saved_step", "step {:.0f}");
  return {text_cell(status, "run"),
          text_cell(status, "kind"),
          text_cell(status, "state"),
          progress_text(status),
          number_cell(status, "loss", "{:.5f}"),
          number_cell(status, "tokens_per_second", "{:.0f}"),
          has_ended ? "-" : console::time_text(number_in(status, "seconds_left").value_or(-1)),
          saved == "-" ? saved : saved + ", " + text_cell(status, "saved"),
          !number_in(status, "best_step")
              ? "-"
              : number_cell(status, "best_step", "step {:.0f}") +
                    number_cell(status, "best_held_out_loss", ", held out {:.5f}"),
          number_cell(status, "exit_code", "{:.0f}")};
}

/// Prints the progress of runs, whether running or ended. Error(kBadData) for a directory that is not a
/// run's.
int status_command(const StatusArguments& arguments) {
  Json all = Json::array();
  std::vector<std::string> others;
  for (const fs::path& run : arguments.runs) {
    if (std::optional<Json> status = find_status(run)) {
      all.push_back(std::move(*status));
      continue;
    }
    // Logs and scripts of Slurm jobs may lie beside runs and are passed over; a path that does not exist is a
    // mistake.
    if (!path_exists(run)) refuse_no_run(run.string());
    others.push_back(printable(run.string()));
  }
  if (all.empty()) refuse_no_run(others.front());
  if (arguments.json) {
    console::write_line(all.dump(2, ' ', false, Json::error_handler_t::replace));
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"run", "kind", "state", "done", "loss", "tokens/s", "left", "last save", "best save", "exit code"}};
  for (const Json& status : all) rows.push_back(row_of(status));
  console::write_line(console::table(rows));
  if (!others.empty()) console::line("no run directories: {}", fmt::join(others, ", "));
  for (const Json& status : all)
    if (status.contains("message"))
      console::line("{}: {}", text_cell(status, "run"), text_cell(status, "message"));
  return 0;
}

}  // namespace

void add_status(CommandLine& line) {
  const auto [command, arguments] = add_command<StatusArguments>(
      line, "status", "Step, loss, tokens/s, time left and last save of runs", status_command);
  command.add_option("runs", arguments.runs, "Run directories")->required();
  command.add_flag("--json", arguments.json, "Print JSON");
}

}  // namespace sluice
