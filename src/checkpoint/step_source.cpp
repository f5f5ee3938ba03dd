#include "checkpoint/step_source.hpp"

#include "base/error.hpp"
#include "config/job_copy.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

void tell_nobody(const std::string& /*broken*/) {}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Reads the copy of the job in a run's directory; empty if there is none that this version can read.
std::optional<JobCopy> job_of_run(const fs::path& run) {
  if (!is_there(run / kJobCopyFile)) return std::nullopt;
  try {
    return read_job_copy(run / kJobCopyFile);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

fs::path steps_of_run(const fs::path& run) {
  const std::optional<JobCopy> job = job_of_run(run);
  if (!job || job->config.checkpoint.path.empty()) return run / "checkpoints";
  return from_start(job->started_in, job->config.checkpoint.path);
}

std::optional<fs::path> find_steps(const fs::path& path) {
  for (const fs::path& directory : {steps_of_run(path), path})
    if (!list_steps(directory).empty()) return directory;
  return std::nullopt;
}

std::vector<StepPlace> steps_at(const fs::path& path) {
  if (is_saved_step(path)) return {{read_saved_step(path).step, path}};
  if (const std::optional<fs::path> directory = find_steps(path)) return list_steps(*directory);
  const bool is_run = is_there(path / kJobCopyFile);
  fail({ExitCode::kBadData, "checkpoint.no_such_step"}, "{}: there are no checkpoints; {}", path.string(),
       is_run ? fmt::format("those of this run would be in {}", steps_of_run(path).string())
              : "name a run's directory, its checkpoint.path, or one step");
}

HeldOutStep best_step(const std::vector<StepPlace>& steps) {
  for (auto place = steps.rbegin(); place != steps.rend(); ++place) {
    try {
      return read_saved_step(place->path).best;
    } catch (const Error&) {
      continue;  // the fault is reported when the checkpoint is listed or resumed from
    }
  }
  return {};
}

std::optional<FoundStep> step_in(const fs::path& directory, std::int64_t which, const TellBroken& on_broken) {
  return step_in(
      directory, list_steps(directory), [](const StepPlace& place) { return read_saved_step(place.path); },
      which, on_broken);
}

std::optional<FoundStep> step_in(const fs::path& directory, const std::vector<StepPlace>& steps,
                                 const ReadStep& read, std::int64_t which, const TellBroken& on_broken) {
  std::optional<FoundStep> newest;
  if (which < 0) newest = newest_step(directory, steps, read, on_broken);
  if (which == kNewestStep || (which < 0 && !newest)) return newest;
  const std::int64_t step = which == kBestStep ? newest->step.best.step : which;
  if (newest && step == newest->step.step) return newest;
  const auto place = std::ranges::find(steps, step, &StepPlace::step);
  if ((which == kBestStep && step == 0) || place == steps.end()) return std::nullopt;
  return FoundStep{place->path, read(*place)};
}

std::string missing_step_text(const fs::path& directory, std::int64_t which) {
  std::vector<std::string> there;
  for (const StepPlace& place : list_steps(directory)) there.push_back(fmt::format("{}", place.step));
  if (which == kBestStep && best_step(list_steps(directory)).step == 0)
    return fmt::format(
        "there is no best checkpoint in {}: none of {} was evaluated when it was saved "
        "(evaluate.every_steps)",
        directory.string(), fmt::join(there, ", "));
  const std::int64_t step = which == kBestStep ? best_step(list_steps(directory)).step : which;
  return fmt::format("there is no checkpoint of step {}{} in {}, which holds {}", step,
                     which == kBestStep ? ", the best," : "", directory.string(),
                     there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")));
}

std::optional<FoundStep> find_step(const fs::path& path, std::int64_t which, ExitCode code) {
  std::optional<FoundStep> found;
  if (is_saved_step(path)) {
    found = FoundStep{path, read_saved_step(path)};
    if (which >= 0 && which != found->step.step)
      fail({code, "checkpoint.no_such_step"}, "{}: there is no checkpoint of step {}; it is that of step {}",
           path.string(), which, found->step.step);
  } else if (const std::optional<fs::path> directory = find_steps(path)) {
    found = step_in(*directory, which, tell_nobody);
    if (!found)
      fail({code, "checkpoint.no_such_step"}, "{}: {}", path.string(), missing_step_text(*directory, which));
  }
  if (found && found->step.started_in.empty())
    if (const std::optional<JobCopy> job = job_of_run(path)) found->step.started_in = job->started_in;
  return found;
}

}  // namespace sluice
