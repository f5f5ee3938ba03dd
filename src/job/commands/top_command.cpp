#include "base/bytes.hpp"
#include "base/text.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "process/console.hpp"
#include "process/status_file.hpp"
#include "report/expert_load.hpp"
#include "report/joined_metrics.hpp"
#include "report/other_results.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

struct TopArguments {
  std::filesystem::path run;
  double seconds = 2;  ///< seconds between two looks
};

using Status = nlohmann::json;

/// Number of last steps over which speeds are averaged.
constexpr std::int64_t kRecent = 50;

std::string value_of(const Status& status, const std::string& key, const std::string& none) {
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
std::string other_text(const RunFiles& files, const Status& status) {
  std::string text;
  if (const std::string progress = progress_text(status); progress != "-")
    text += fmt::format("{}  left {}\n", progress,
                        console::time_text(number_in(status, "seconds_left").value_or(-1)));
  const std::vector<std::filesystem::path> segments = files.segments();
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
std::string screen(const RunFiles& files, const Status& status) {
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
int top_command(const TopArguments& arguments) {
  const bool stays = console::is_terminal();
  while (true) {
    const RunFiles files = find_run_files(arguments.run);
    const Status status = read_status(files.directory);
    const std::string text = screen(files, status);
    console::raw(stays ? "\x1b[H\x1b[2J" + text : text);
    if (!stays || has_ended(status)) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.seconds));
  }
}

}  // namespace

void add_top(CommandLine& line) {
  const auto [command, arguments] =
      add_command<TopArguments>(line, "top", "Watch a run: loss, tokens/s, memory, experts", top_command);
  command.add_option("run", arguments.run, "Run directory")->required();
  command.add_option("--every", arguments.seconds, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

}  // namespace sluice
