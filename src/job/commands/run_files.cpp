#include "job/commands/run_files.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "checkpoint/step_source.hpp"
#include "comm/outcome.hpp"
#include "config/job_copy.hpp"
#include "config/schema.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "metrics/segments.hpp"
#include "process/status_file.hpp"

#include <nlohmann/json.hpp>

#include <string_view>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;

bool RunFiles::is_run() const {
  if (config) return true;
  return !text_in(read_status(directory), "state").empty();
}

std::string RunFiles::kind() const {
  if (config) return name_of(config->job.kind);
  const nlohmann::json status = read_status(directory);
  return status.contains("kind") ? json_text(status["kind"]) : "train";
}

fs::path RunFiles::answers() const {
  return directory / (config ? config->generate.output : GenerateSettings().output);
}

fs::path RunFiles::checkpoints() const { return steps_of_run(directory); }

fs::path RunFiles::metrics_file() const {
  return directory / (config ? config->metrics.file : MetricsSettings().file);
}

std::vector<fs::path> RunFiles::segments() const { return existing_segments(metrics_file()); }

JoinedMetrics RunFiles::metrics() const {
  const std::vector<fs::path> files = segments();
  if (files.empty())
    fail({ExitCode::kBadData, "job.not_a_run"},
         "{}: there is no such file; expected the directory of a run that has metrics",
         metrics_file().string());
  JoinedMetrics metrics(files);
  if (metrics.rows() == 0 && kind() != "train")
    fail({ExitCode::kBadData, "job.not_a_run"},
         "{}: there are no rows of steps, because job.kind is \"{}\"; expected a training",
         metrics_file().string(), printable(kind()));
  if (metrics.rows() == 0)
    fail({ExitCode::kBadData, "job.not_a_run"}, "{}: there are no rows of steps yet",
         metrics_file().string());
  return metrics;
}

RunFiles find_run_files(const fs::path& directory) {
  if (!directory_exists(directory))
    fail({ExitCode::kBadData, "job.not_a_run"}, "{}: there is no such directory; expected that of a run",
         directory.string());
  RunFiles files{directory};
  const fs::path job = directory / kJobCopyFile;
  if (!path_exists(job)) return files;
  try {
    files.config = load_job_config(job);
  } catch (const Error& refusal) {
    files.job_refusal = refusal.what();
  }
  return files;
}

nlohmann::json list_as_json(const std::vector<StepPlace>& steps) {
  nlohmann::json list = nlohmann::json::array();
  const HeldOutStep best = best_step(steps);
  for (const StepPlace& place : steps) {
    nlohmann::json& one = list.emplace_back();
    const Outcome outcome = outcome_of([&] {
      const SavedStep step = read_saved_step(place.path);
      one = {{"saved", step.saved}, {"ranks", step.world_size}, {"bytes", step.bytes()}};
      if (best.step > 0 && best.step == place.step) one["best_held_out_loss"] = best.loss;
    });
    one["step"] = place.step;
    one["path"] = place.path.string();
    one["whole"] = !outcome.failed();
    if (!outcome.failed()) continue;
    one["id"] = outcome.id.text();
    one["code"] = static_cast<int>(outcome.code);
    one["text"] = outcome.text;
  }
  return list;
}

std::vector<std::vector<std::string>> rows_of_steps(const nlohmann::json& steps) {
  std::vector<std::vector<std::string>> rows;
  for (const nlohmann::json& one : steps) {
    const std::optional<double> best = number_in(one, "best_held_out_loss");
    rows.push_back({one["step"].dump(), "-", "-", "-", text_in(one, "text")});
    if (one["whole"].get<bool>())
      rows.back() = {one["step"].dump(), text_in(one, "saved"), one["ranks"].dump(),
                     format_bytes(one["bytes"].get<std::int64_t>()),
                     best ? fmt::format("whole; the best, held out {:.5f}", *best) : "whole"};
  }
  return rows;
}

}  // namespace sluice
