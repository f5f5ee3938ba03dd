#include "report/run_json.hpp"

#include "base/text.hpp"
#include "report/expert_load.hpp"
#include "report/thinning.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace sluice {
namespace {

using nlohmann::json;

constexpr std::string_view kPhasePrefix = "train/phase_seconds/";

/// Number as JSON with six digits, more than a chart shows; null for NaN and infinity.
json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

json numbers(std::span<const double> values) {
  json list = json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

/// Lines that the page draws, by their names; without bands if a point is a single step.
json series_json(const JoinedMetrics& metrics, const Thinning& thinning) {
  json all = json::object();
  for (const auto& [name, column_name] : {std::pair{"loss", "train/loss"},
                                          {"grad_norm", "train/grad_norm"},
                                          {"learning_rate", "train/learning_rate"},
                                          {"aux_loss", "moe/aux_loss"},
                                          {"z_loss", "moe/z_loss"},
                                          {"busiest_load", "moe/busiest_load"},
                                          {"unused_experts", "moe/unused_experts"},
                                          {"margin", "rewards/margins"},
                                          {"accuracy", "rewards/accuracies"},
                                          {"chosen_log_prob", "logps/chosen"},
                                          {"rejected_log_prob", "logps/rejected"},
                                          {"tokens_per_second", "train/tokens_per_second"},
                                          {"mfu", "train/mfu"}}) {
    const JoinedColumn* column = metrics.find(column_name);
    if (column == nullptr || !column->shape.empty()) continue;
    const ThinSeries series = thin(metrics, *column, thinning).front();
    all[name]["mean"] = numbers(series.mean);
    if (thinning.size() == 1) continue;
    all[name]["low"] = numbers(series.low);
    all[name]["high"] = numbers(series.high);
  }
  return all;
}

json phases_json(const JoinedMetrics& metrics, const Thinning& thinning) {
  json all = json::object();
  for (const JoinedColumn& column : metrics.columns())
    if (column.name.starts_with(kPhasePrefix) && column.shape.empty())
      all[column.name.substr(kPhasePrefix.size())] = numbers(thin(metrics, column, thinning).front().mean);
  return all;
}

/// Held-out losses of one file, with at most as many points as `detail` says, the last evaluation among them.
json held_out_file(const JoinedMetrics& metrics, std::span<const double> values, std::size_t files,
                   std::size_t file, std::int64_t most) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row * files < values.size(); ++row)
    if (std::isfinite(values[row * files + file])) rows.push_back(row);
  const auto each = (rows.size() + static_cast<std::size_t>(most) - 1) / static_cast<std::size_t>(most);
  json steps = json::array(), losses = json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if ((rows.size() - 1 - i) % each != 0) continue;
    steps.push_back(metrics.steps()[rows[i]]);
    losses.push_back(number(values[rows[i] * files + file]));
  }
  return {{"steps", steps}, {"values", losses}};
}

json held_out_json(const ReportRun& run, std::int64_t most) {
  json all = json::array();
  const JoinedColumn* column = run.metrics.find("train/held_out_loss");
  if (column == nullptr || column->shape.size() != 1) return all;
  const std::vector<double> values = run.metrics.read(*column, 0, run.metrics.rows());
  const auto files = static_cast<std::size_t>(column->shape[0]);
  for (std::size_t file = 0; file < files; ++file) {
    json one = held_out_file(run.metrics, values, files, file, most);
    one["name"] = file < run.held_out_files.size() ? run.held_out_files[file] : fmt::format("file {}", file);
    all.push_back(std::move(one));
  }
  return all;
}

/// Memory of each rank at the last step.
json memory_json(const JoinedMetrics& metrics) {
  json all = json::object();
  for (const auto& [name, column_name] : {std::pair{"planned", "memory/planned_bytes"},
                                          {"growth", "memory/peak_growth_bytes"},
                                          {"peak", "memory/peak_bytes"}})
    if (const JoinedColumn* column = metrics.find(column_name);
        column != nullptr && column->shape.size() == 1)
      all[name] = numbers(metrics.read(*column, metrics.rows() - 1, 1));
  return all;
}

void add_experts(const JoinedMetrics& metrics, const Thinning& lines, std::int64_t most_cells, json& out) {
  const JoinedColumn* column = metrics.find("moe/expert_tokens");
  if (column == nullptr || !is_expert_tokens(*column) || column->elements() == 0) return;
  out["series"]["busiest_expert"]["mean"] = numbers(busiest_experts(metrics, *column, lines));
  if (column->elements() > most_cells) {
    out["notes"].push_back(fmt::format("a map of {} experts is too large for this page", column->elements()));
    return;
  }
  constexpr std::int64_t kMostTimes = 120;
  const Thinning thinning(metrics.rows(),
                          std::clamp<std::int64_t>(most_cells / column->elements(), 1, kMostTimes));
  const ExpertLoad load = expert_load(metrics, *column, thinning);
  json cells = json::array();
  for (std::int64_t layer = 0; layer < load.layers; ++layer) cells.push_back(load.cells(layer));
  out["experts"] = {{"experts", load.experts}, {"steps", thinning.steps(metrics.steps())}, {"cells", cells}};
}

/// Front of a text, cut between characters.
std::string front_of(const std::string& text, std::int64_t bytes) {
  if (std::ssize(text) <= bytes) return text;
  const std::string front = text.substr(0, static_cast<std::size_t>(bytes));
  return front.substr(0, valid_utf8_prefix(front)) +
         fmt::format("\n… {} bytes more", std::ssize(text) - bytes);
}

/// Samples as JSON, the newest first, as many as there is room for.
json samples_json(const std::vector<ReportSample>& samples, std::int64_t bytes) {
  constexpr std::int64_t kMostOfOne = 4000, kMostSamples = 60;
  json all = json::array();
  for (auto sample = samples.rbegin(); sample != samples.rend() && std::ssize(all) < kMostSamples; ++sample) {
    const std::string answer = front_of(sample->answer, kMostOfOne);
    bytes -= std::ssize(answer);
    if (bytes < 0) break;
    all.push_back(
        {sample->step < 0 ? "-" : fmt::format("{}", sample->step), front_of(sample->prompt, 200), answer});
  }
  return all;
}

}  // namespace

json run_json(const ReportRun& run, const PageDetail& detail) {
  const JoinedMetrics& metrics = run.metrics;
  const Thinning thinning(metrics.rows(), detail.points);
  json facts = json::array();
  for (const auto& [label, value] : run.facts) facts.push_back({label, value});
  json out{{"name", run.name},
           {"facts", facts},
           {"notes", run.notes},
           {"job", front_of(run.job, detail.text_bytes)},
           {"bucket", thinning.size()},
           {"steps", thinning.steps(metrics.steps())},
           {"series", series_json(metrics, thinning)},
           {"phases", phases_json(metrics, thinning)},
           {"held_out", held_out_json(run, detail.points)},
           {"memory", memory_json(metrics)},
           {"checkpoints", run.checkpoints},
           {"documents", run.documents},
           {"samples", samples_json(run.samples, detail.text_bytes)}};
  add_experts(metrics, thinning, detail.expert_cells, out);
  return out;
}

}  // namespace sluice
