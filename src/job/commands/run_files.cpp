#include "job/commands/run_files.hpp"

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "checkpoint/step_source.hpp"
#include "config/job_copy.hpp"
#include "config/schema.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "job/run_directory.hpp"
#include "metrics/segments.hpp"

#include <nlohmann/json.hpp>

#include <string_view>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;

std::string json_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json read_status(const fs::path& directory) {
  const fs::path file = directory / "status.json";
  if (!path_exists(file)) return nlohmann::json::object();
  auto status = nlohmann::json::parse(read_text_file(file, kMiB), nullptr, /*allow_exceptions=*/false);
  if (!status.is_object()) fail(ExitCode::kBadData, "{}: expected a JSON object", file.string());
  return status;
}

nlohmann::json status_if_readable(const fs::path& directory) try {
  return read_status(directory);
} catch (const std::exception&) {
  return nlohmann::json::object();
}

std::optional<double> number_in(const nlohmann::json& status, std::string_view key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string text_in(const nlohmann::json& status, std::string_view key) {
  const auto found = status.find(key);
  return found != status.end() && found->is_string() ? found->get<std::string>() : "";
}

bool has_ended(const nlohmann::json& status) {
  const std::string state = text_in(status, "state");
  return state == "done" || state == "saved" || state == "failed";
}

std::string progress_text(const nlohmann::json& status) {
  for (const std::string_view unit : kProgressUnits) {
    const auto done = status.find(std::string(unit)), total = status.find(std::string(unit) + "s");
    if (done == status.end() || !done->is_number_integer()) continue;
    return fmt::format("{} {}/{}", unit, done->get<std::int64_t>(),
                       total != status.end() && total->is_number_integer() ? total->dump() : "-");
  }
  return "-";
}

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
    fail(ExitCode::kBadData, "{}: there is no such file; expected the directory of a run that has metrics",
         metrics_file().string());
  JoinedMetrics metrics(files);
  if (metrics.rows() == 0 && kind() != "train")
    fail(ExitCode::kBadData,
         "{}: there are no rows of steps, because job.kind is \"{}\"; expected a training",
         metrics_file().string(), printable(kind()));
  if (metrics.rows() == 0)
    fail(ExitCode::kBadData, "{}: there are no rows of steps yet", metrics_file().string());
  return metrics;
}

RunFiles find_run_files(const fs::path& directory) {
  if (!directory_exists(directory))
    fail(ExitCode::kBadData, "{}: there is no such directory; expected that of a run", directory.string());
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

StepTable step_table(const std::vector<StepPlace>& steps) {
  StepTable table;
  const HeldOutStep best = best_step(steps);
  for (const StepPlace& place : steps) {
    const std::string number = fmt::format("{}", place.step);
    try {
      const SavedStep step = read_saved_step(place.path);
      const bool is_best = best.step > 0 && best.step == place.step;
      table.rows.push_back({number, step.saved, fmt::format("{}", step.world_size),
                            format_bytes(step.bytes()),
                            is_best ? fmt::format("whole; the best, held out {:.5f}", best.loss) : "whole"});
    } catch (const Error& error) {
      table.code = error.code();
      table.rows.push_back({number, "-", "-", "-", error.what()});
    }
  }
  return table;
}

}  // namespace sluice
