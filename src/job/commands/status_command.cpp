#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "launch/slurm/submission.hpp"
#include "process/console.hpp"
#include "process/run_lock.hpp"
#include "process/status_file.hpp"
#include "report/expert_load.hpp"
#include "report/joined_metrics.hpp"
#include "report/other_results.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct StatusArguments {
  std::vector<std::filesystem::path> runs;
  bool json = false;
  bool watches = false;  ///< whether one run is shown as it goes on, with its memory and experts
  double seconds = 2;    ///< seconds between two looks at a run that is watched
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

/// Number of last steps over which speeds are averaged.
constexpr std::int64_t kRecent = 50;

std::string value_of(const Json& status, const std::string& key, const std::string& none) {
  const auto found = status.find(key);
  return found == status.end() ? none : printable(json_text(*found), 400);
}

/// Last rows of a column with one number per row; empty if there is no such column.
std::vector<double> last_rows(const JoinedMetrics& metrics, const char* name, std::int64_t rows) {
  const JoinedColumn* column = metrics.find(name);
  if (column == nullptr) return {};
  const std::int64_t count = std::min(rows, metrics.rows());
  return metrics.read(*column, metrics.rows() - count, count);
}

std::string number_text(const std::vector<double>& values, const char* format, double factor = 1) {
  return values.empty() ? "-" : fmt::format(fmt::runtime(format), factor * values.back());
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string progress_line(const JoinedMetrics& metrics, const RunFiles& files) {
  const std::int64_t step = metrics.steps().back();
  const std::vector<double> seconds = last_rows(metrics, "train/step_seconds", kRecent);
  if (!files.config || seconds.empty()) return fmt::format("step {}", step);
  const std::int64_t total = files.config->train.steps;
  const double left = mean(seconds) * static_cast<double>(std::max<std::int64_t>(0, total - step));
  if (!std::isfinite(left)) return fmt::format("step {}/{}", step, total);
  return fmt::format("step {}/{}  left {} at {:.2f} s a step", step, total, console::time_text(left),
                     mean(seconds));
}

/// Text of the last held-out losses, "  held out 4.12345, 3.98765 after step 100"; "" if there was no recent
/// evaluation.
std::string held_out_text(const JoinedMetrics& metrics) {
  constexpr std::int64_t kMostRows = 10'000;
  const JoinedColumn* column = metrics.find("train/held_out_loss");
  if (column == nullptr || column->elements() == 0) return "";
  const std::int64_t count = std::min(kMostRows, metrics.rows()), first = metrics.rows() - count;
  const std::vector<double> values = metrics.read(*column, first, count);
  const auto last =
      std::find_if(values.rbegin(), values.rend(), [](double value) { return !std::isnan(value); });
  if (last == values.rend()) return "";
  const std::int64_t row = (values.rend() - last - 1) / column->elements();
  std::string text;
  for (std::int64_t i = 0; i < column->elements(); ++i)
    text += fmt::format("{}{:.5f}", i == 0 ? "  held out " : ", ",
                        values[static_cast<std::size_t>(row * column->elements() + i)]);
  return text + fmt::format(" after step {}", metrics.steps()[static_cast<std::size_t>(first + row)]);
}

/// Table of the ranks' memory after the last step, a line per rank.
std::string memory_table(const JoinedMetrics& metrics) {
  constexpr std::size_t kMostRanks = 32;
  const std::vector<double> planned = last_rows(metrics, "memory/planned_bytes", 1),
                            growth = last_rows(metrics, "memory/peak_growth_bytes", 1),
                            peak = last_rows(metrics, "memory/peak_bytes", 1);
  const auto cell = [](const std::vector<double>& bytes, std::size_t rank) -> std::string {
    if (rank >= bytes.size() || !(std::abs(bytes[rank]) < 1e18)) return "-";
    return format_mib(static_cast<std::int64_t>(bytes[rank]));
  };
  std::vector<std::vector<std::string>> rows{{"memory", "planned", "measured", "process"}};
  for (std::size_t rank = 0; rank < peak.size() && rank < kMostRanks; ++rank)
    if (!std::isnan(peak[rank]))
      rows.push_back(
          {fmt::format("rank {}", rank), cell(planned, rank), cell(growth, rank), cell(peak, rank)});
  std::string text = console::table(rows);
  if (peak.size() > kMostRanks) text += fmt::format("\n({} ranks in all)", peak.size());
  return text;
}

/// Load of each layer's busiest expert over the mean load, in the last step: "1.4 2.0 ...".
std::string expert_line(const JoinedMetrics& metrics) {
  const JoinedColumn* column = metrics.find("moe/expert_tokens");
  if (column == nullptr || !is_expert_tokens(*column) || column->elements() == 0) return "";
  const std::vector<double> tokens = metrics.read(*column, metrics.rows() - 1, 1);
  const auto experts = static_cast<std::size_t>(column->shape[1]);
  std::string text;
  for (std::size_t at = 0; at < tokens.size(); at += experts)
    text += fmt::format(" {:.1f}", busiest_expert(std::span(tokens).subspan(at, experts)));
  return "busiest expert of each layer, times an even share:" + text;
}

std::string rows_text(const JoinedMetrics& metrics, const RunFiles& files) {
  const auto last = [&](const char* name) { return last_rows(metrics, name, 1); };
  std::string text = progress_line(metrics, files) + "\n";
  text += fmt::format("loss      {}{}  grad norm {}  lr {}\n", number_text(last("train/loss"), "{:.5f}"),
                      held_out_text(metrics), number_text(last("train/grad_norm"), "{:.4f}"),
                      number_text(last("train/learning_rate"), "{:.3e}"));
  text += fmt::format("speed     {} tokens/s  MFU {} %\n\n",
                      number_text(last("train/tokens_per_second"), "{:.0f}"),
                      number_text(last("train/mfu"), "{:.0f}", 100));
  text += memory_table(metrics) + "\n";
  for (const std::string& line : wrapped(expert_line(metrics), console::text_columns())) text += line + "\n";
  return text;
}

/// Text about a job that does not train: progress, result of an evaluation, cost of loading.
std::string other_text(const RunFiles& files, const Json& status) {
  std::string text;
  if (const std::string progress = progress_text(status); progress != "-")
    text += fmt::format("{}  left {}\n", progress,
                        console::time_text(number_in(status, "seconds_left").value_or(-1)));
  const std::vector<fs::path> segments = files.segments();
  const auto evaluation = segments.empty() ? std::nullopt : read_evaluation(segments.back(), 0);
  if (evaluation)
    text += fmt::format("loss      {:.5f}  perplexity {:.4f}  of {} in {}\n", evaluation->loss,
                        evaluation->perplexity, counted(evaluation->tokens, "token"),
                        counted(evaluation->documents, "document"));
  if (const std::optional<double> speed = number_in(status, "tokens_per_second"))
    text += fmt::format("speed     {:.0f} tokens/s\n", *speed);
  const std::vector<LoadResult> ranks =
      segments.empty() ? std::vector<LoadResult>() : read_load(segments.back());
  if (!ranks.empty()) text += fmt::format("loaded    {}\n", load_text(ranks));
  return text;
}

/// Text of one look at a run.
std::string screen(const RunFiles& files, const Json& status) {
  const std::string kind = files.kind();
  std::string text = fmt::format("{}  {}  {}", files.directory.string(), printable(kind),
                                 value_of(status, "state", "no status.json"));
  if (const std::string message = value_of(status, "message", ""); !message.empty()) text += ": " + message;
  text += fmt::format("  (written at {})\n", value_of(status, "updated", "-"));
  if (kind != "train") return text + other_text(files, status);
  const JoinedMetrics metrics(files.segments());
  if (metrics.rows() == 0) return text + "there are no rows of steps yet\n";
  return text + rows_text(metrics, files);
}

/// Shows the state of a run from its files: on a terminal repeatedly until the job has ended, elsewhere once.
int watch(const fs::path& run, double seconds) {
  const bool stays = console::is_terminal();
  while (true) {
    const RunFiles files = find_run_files(run);
    const Json status = read_status(files.directory);
    const std::string text = screen(files, status);
    console::raw(stays ? "\x1b[H\x1b[2J" + text : text);
    if (!stays || has_ended(status)) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
}

/// Prints the progress of runs, whether running or ended. Error(kBadData) for a directory that is not a
/// run's.
int status_command(const StatusArguments& arguments) {
  if (arguments.watches && arguments.runs.size() > 1)
    fail({ExitCode::kUsage, "command.usage"}, "--watch: found {} runs, expected one", arguments.runs.size());
  if (arguments.watches) return watch(arguments.runs.front(), arguments.seconds);
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
    print_json(all);
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

CLI::Option* add_seconds(CLI::App& command, StatusArguments& arguments) {
  return command.add_option("--every", arguments.seconds, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

}  // namespace

void add_status(CommandLine& line) {
  const auto [command, arguments] = add_command<StatusArguments>(
      line, "status", "Step, loss, tokens/s, time left and last save of runs", status_command);
  command.add_option("runs", arguments.runs, "Run directories")->required();
  CLI::Option* const json = command.add_flag("--json", arguments.json, "Print JSON");
  CLI::Option* const watch =
      command.add_flag("--watch", arguments.watches, "Watch one run as it goes on: memory and experts too");
  watch->excludes(json);
  add_seconds(command, arguments)->needs(watch);
}

/// Adds `top`, which is `status --watch`.
void add_top(CommandLine& line) {
  const auto [command, arguments] = add_command<StatusArguments>(
      line, "top", "Watch a run: loss, tokens/s, memory, experts (status --watch)", status_command);
  arguments.watches = true;
  command.add_option("run", arguments.runs, "Run directory")->required()->expected(1);
  add_seconds(command, arguments);
}

}  // namespace sluice
