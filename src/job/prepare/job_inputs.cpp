#include "job/prepare/job_inputs.hpp"

#include "adapter/peft_config.hpp"
#include "checkpoint/step_directory.hpp"
#include "checkpoint/step_source.hpp"
#include "comm/outcome.hpp"
#include "config/job_copy.hpp"
#include "io/path.hpp"
#include "job/prepare/model_source.hpp"
#include "process/host_name.hpp"
#include "weights/companion_files.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Collects files in the order in which they are handed over.
class Inputs {
 public:
  void add(const fs::path& file) { add({.path = file}); }

  /// Adds what ranks that do not read the weights themselves need of a model directory, an adapter or a
  /// checkpoint.
  void add_source(const fs::path& directory) {
    if (directory.empty()) return;
    if (is_saved_step(directory)) return add_step(directory, read_saved_step(directory));
    for (const std::string_view file : {kPeftConfigFile, kPeftWeightsFile}) add(directory / file);
    if (!path_exists(directory / "config.json")) return;
    const Companions companions = companion_files(directory, WeightStorage::kAsConfigSays);
    for (const CompanionFile& companion : companions.files) add(companion.path);
  }

  /// Adds what is needed to find the checkpoint that `which` means in a run.
  void add_run(const fs::path& path, std::int64_t which) {
    if (path.empty() || is_saved_step(path)) return;
    add({.path = path / kJobCopyFile, .stays = true});
    if (which != kBestStep || !find_steps(path)) return;
    // The newest checkpoint tells which one is the best.
    if (const auto newest = find_step(path, kNewestStep, ExitCode::kBadConfig))
      add_step(newest->path, newest->step);
  }

  [[nodiscard]] std::vector<JobInput> take() { return std::move(files_); }

 private:
  void add(JobInput file) {
    std::error_code error;
    if (!fs::is_regular_file(file.path, error)) return;
    file.path = fs::absolute(file.path).lexically_normal();
    if (std::ranges::find(files_, file.path, &JobInput::path) == files_.end())
      files_.push_back(std::move(file));
  }

  /// Adds a checkpoint, with its manifest last: the checkpoint exists once that is there.
  void add_step(const fs::path& directory, SavedStep step) {
    if (step.hosts.empty()) {
      step.hosts = {host_name()};
      for (SavedFile& file : step.files)
        if (!file.entries.empty()) file.hosts = {0};
    }
    for (const SavedFile& file : step.files)
      if (file.hosts.empty()) add({.path = directory / file.name, .stays = true});
    add({.path = directory / kManifestFile, .content = to_manifest(step), .stays = true});
  }

  std::vector<JobInput> files_;
};

/// Returns the job with the checkpoints that it names, or unchanged if the ranks will refuse them.
JobConfig with_steps(const JobConfig& config) {
  JobConfig sources = config;
  static_cast<void>(outcome_of([&] { sources = with_saved_sources(config); }));
  return sources;
}

}  // namespace

std::vector<JobInput> job_inputs(const fs::path& job_file, const JobConfig& config) {
  Inputs inputs;
  inputs.add(job_file);
  const JobConfig sources = with_steps(config);
  for (const fs::path& path : {config.model.path, config.model.adapter, config.lora.start})
    inputs.add_run(path, config.model.step);
  for (const fs::path& path : {sources.model.path, sources.model.adapter, sources.lora.start})
    inputs.add_source(path);
  inputs.add(config.data.tokens);
  for (const SourceSettings& source : config.data.source) inputs.add(source.tokens);
  for (const fs::path& tokens : config.evaluate.tokens) inputs.add(tokens);
  for (const fs::path& scores : config.prefer.reference.files) inputs.add(scores);
  for (const fs::path& scores : config.distil.teacher) inputs.add(scores);
  inputs.add(config.generate.prompts);
  return inputs.take();
}

}  // namespace sluice
