#include "checkpoint/step_directory.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "io/staged_directory.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace sluice {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::int64_t kLargestManifest = 1 * kGiB;

std::optional<std::int64_t> step_of(const std::string& name) {
  std::int64_t step = -1;
  if (name.starts_with(kPrefix))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::string late_text(const FoundStep& late, const FoundStep& valid) {
  return fmt::format(
      "{} was saved by attempt {} of the run, after attempt {} had saved {}: it came late and is not used",
      late.path.string(), late.step.attempt, valid.step.attempt, valid.path.string());
}

}  // namespace

fs::path checkpoint_directory(const JobConfig& config) {
  return config.checkpoint.path.empty() ? config.job.output / "checkpoints" : config.checkpoint.path;
}

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::vector<StepPlace> list_steps(const fs::path& directory) {
  std::vector<StepPlace> steps;
  for (const fs::path& entry : entries_in(directory))
    if (const auto step = step_of(entry.filename().string())) steps.push_back({*step, entry});
  std::ranges::sort(steps, {}, &StepPlace::step);
  return steps;
}

bool is_saved_step(const fs::path& directory) { return path_exists(directory / kManifestFile); }

OutputFile create_manifest(const fs::path& directory, const SavedStep& step) {
  OutputFile manifest = OutputFile::create(directory / kManifestFile);
  const std::string text = to_manifest(step);
  manifest.write_at(0, std::as_bytes(std::span(text)));
  return manifest;
}

SavedStep read_manifest(const fs::path& directory) {
  const fs::path manifest = directory / kManifestFile;
  return parse_manifest(read_text_file(manifest, kLargestManifest), manifest.string());
}

void require_file(const fs::path& directory, const SavedFile& file) {
  const std::int64_t bytes = InputFile::open(directory / file.name).size_bytes();
  if (bytes != file.bytes)
    fail({ExitCode::kBadData, "checkpoint.damaged"}, "{} has {} bytes, and {} when it was saved",
         (directory / file.name).string(), bytes, file.bytes);
}

SavedStep read_saved_step(const fs::path& directory) {
  SavedStep step = read_manifest(directory);
  for (const SavedFile& file : step.files)
    if (file.hosts.empty() || path_exists(directory / file.name)) require_file(directory, file);
  return step;
}

void require_all_files(const fs::path& directory, const SavedStep& step) {
  for (const SavedFile& file : step.files)
    if (!file.hosts.empty() && !path_exists(directory / file.name))
      fail({ExitCode::kBadData, "checkpoint.on_other_host"},
           "{} is not on this host: it was saved on {}. Copy {} of that host to here, or run a job on the "
           "hosts",
           (directory / file.name).string(), step.hosts_text(file), directory.string());
}

std::optional<FoundStep> newest_step(const fs::path& directory, const std::vector<StepPlace>& steps,
                                     const ReadStep& read, const TellBroken& on_broken) {
  std::optional<FoundStep> newest;
  std::string last;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    try {
      FoundStep found{it->path, read(*it)};
      if (newest && found.step.attempt <= newest->step.attempt) return newest;
      if (newest) on_broken(late_text(*newest, found));
      newest = std::move(found);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadData) throw;
      last = error.what();
      if (!newest) on_broken(last);
    }
  }
  if (newest || steps.empty()) return newest;
  fail({ExitCode::kBadData, "checkpoint.damaged"},
       "{} holds {} checkpoint{} and none is complete: {}. checkpoint.resume = \"never\" with another "
       "job.output begins anew",
       directory.string(), steps.size(), steps.size() == 1 ? "" : "s", last);
}

void remove_step(const fs::path& path) {
  fault_point("checkpoint.remove", 0);
  const fs::path aside = name_beside(path, "removed");
  std::error_code error;
  fs::rename(path, aside, error);
  if (!error) sync_directory(path.parent_path());
  fault_point("checkpoint.remove", 0);
  if (!error) fs::remove_all(aside, error);
  if (error) fail({ExitCode::kIo, "io.write"}, "cannot remove {}: {}", path.string(), error.message());
}

std::vector<StepPlace> steps_to_remove(const std::vector<StepPlace>& steps, std::int64_t keep,
                                       std::int64_t keep_every, std::int64_t best) {
  std::vector<StepPlace> out;
  for (const StepPlace& place : steps.size() > static_cast<std::size_t>(keep)
                                    ? std::span(steps).first(steps.size() - static_cast<std::size_t>(keep))
                                    : std::span<const StepPlace>())
    if ((keep_every == 0 || place.step % keep_every != 0) && place.step != best) out.push_back(place);
  return out;
}

}  // namespace sluice
