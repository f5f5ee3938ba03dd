#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/export_step.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/outcome.hpp"
#include "job/blueprint.hpp"
#include "job/commands/commands.hpp"
#include "job/console.hpp"
#include "job/export_adapter.hpp"
#include "job/progress_line.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/companion_files.hpp"

#include <string>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// The steps that a path means: those of a run, those in a directory of steps, or the step itself.
std::vector<StepPlace> steps_at(const fs::path& path) {
  if (is_saved_step(path)) return {{read_saved_step(path).step, path}};
  for (const fs::path& directory : {path / "checkpoints", path})
    if (std::vector<StepPlace> steps = list_steps(directory); !steps.empty()) return steps;
  fail(ExitCode::kBadData,
       "{}: there are no saved steps; name a run's directory, its checkpoint.path, or one step",
       path.string());
}

std::vector<std::string> row_of(const StepPlace& place, ExitCode& code) {
  try {
    const SavedStep step = read_saved_step(place.path);
    return {fmt::format("{}", place.step), step.saved, fmt::format("{}", step.world_size),
            format_bytes(step.bytes()), "whole"};
  } catch (const Error& error) {
    code = error.code();
    return {fmt::format("{}", place.step), "-", "-", "-", error.what()};
  }
}

/// Every byte of a step.
void verify_step(const StepPlace& place) {
  const Stopwatch watch;
  const SavedStep step = read_saved_step(place.path);
  for (const SavedFile& file : step.files) BlockReader(place.path, file).verify();
  console::line("step {}: {} in {} files are what was saved, {:.2f} s", place.step,
                format_bytes(step.bytes()), step.files.size(), watch.seconds());
}

StepPlace chosen_step(const CheckpointArguments& arguments) {
  const std::vector<StepPlace> steps = steps_at(arguments.run);
  if (!arguments.step) {
    if (steps.size() == 1) return steps.front();
    return {0, newest_step(steps.front().path.parent_path(), [](const std::string&) {})->path};
  }
  for (const StepPlace& place : steps)
    if (place.step == *arguments.step) return place;
  fail(ExitCode::kUsage, "{}: there is no saved step {}", arguments.run.string(), *arguments.step);
}

/// A value of the saved job as text: without the quotes of TOML.
std::string saved_text(const SavedStep& step, std::string_view key) {
  std::string text = step.key(key);
  if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

/// The job whose weights are exported: the step as its model.
JobConfig export_job(const SavedStep& step, const fs::path& directory) {
  JobConfig config;
  config.job.kind = JobKind::kExport;
  config.model.path = directory;
  config.model.dtype = dtype_from_name(saved_text(step, "model.dtype")).value_or(DType::kBFloat16);
  return config;
}

/// As the original model lays them out, with what training left out of it, where that is still there.
ExportContent content_of_step(const Blueprint& blueprint, const fs::path& original, DType dtype) {
  if (!original.empty() && holds_weights(original)) {
    const CheckpointIndex source = read_checkpoint_index(original);
    static_cast<void>(match_checkpoint(source, blueprint.keys, dtype));
    return content_like(source, blueprint.keys, std::nullopt);
  }
  return content_of(blueprint.keys, ExpertLayout::kPerExpert, blueprint.model.config.published_dtype);
}

/// Whether a step is of a training of adapters.
bool holds_adapter(const SavedStep& step) {
  const std::string rank = step.key("lora.rank");
  return (!rank.empty() && rank != "0") || !saved_text(step, "lora.start").empty();
}

/// The job that trained them, as far as it says what they are.
JobConfig adapter_job(const SavedStep& step, const fs::path& directory) {
  std::vector<std::string> overrides{"job.kind=load", "job.output=none"};
  for (const ConfigEntry& entry : step.job)
    if (entry.key == "model.path" || entry.key == "model.dtype" || entry.key.starts_with("lora."))
      overrides.push_back(entry.key + "=" + entry.value);
  JobConfig config = parse_job_config("", directory.string(), overrides);
  config.job.kind = JobKind::kTrain;
  return config;
}

int export_adapter_of(const SavedStep& step, const fs::path& directory, const fs::path& output) {
  const Blueprint blueprint(adapter_job(step, directory));
  const ModelDescription& model = blueprint.model;
  if (model.manifest.structure_hash().hex() != step.structure_hash)
    fail(ExitCode::kBadData, "{}: was trained with other tensors than {} has today", directory.string(),
         blueprint.config.model.path.string());
  export_adapter_step(step, directory, model, blueprint.shard_plan(1), output,
                      adapter_save_options(blueprint));
  console::line("export    step {}: adapters of {} weights: {}", step.step, model.adapters.tensors.size(),
                output.string());
  return 0;
}

}  // namespace

int checkpoint_list_command(const CheckpointArguments& arguments) {
  std::vector<std::vector<std::string>> rows{{"step", "saved", "ranks", "bytes", "state"}};
  auto code = ExitCode::kDone;
  for (const StepPlace& place : steps_at(arguments.run)) rows.push_back(row_of(place, code));
  console::write_line(console::table(rows));
  return static_cast<int>(code);
}

int checkpoint_verify_command(const CheckpointArguments& arguments) {
  Outcome first;
  const std::vector<StepPlace> steps =
      arguments.step ? std::vector{chosen_step(arguments)} : steps_at(arguments.run);
  for (const StepPlace& place : steps) {
    const Outcome outcome = outcome_of([&] { verify_step(place); });
    if (!outcome.failed()) continue;
    console::line("step {}: {}", place.step, outcome.text);
    if (!first.failed()) first = outcome;
  }
  if (first.failed()) fail(first.code, "{}", first.text);
  return 0;
}

int checkpoint_export_command(const CheckpointArguments& arguments) {
  const fs::path directory = chosen_step(arguments).path;
  const SavedStep step = read_saved_step(directory);
  if (holds_adapter(step)) return export_adapter_of(step, directory, arguments.output);
  const Blueprint blueprint(export_job(step, directory));
  const ShardPlan shards = blueprint.shard_plan(1);
  const fs::path original = saved_text(step, "model.path");
  const ExportContent content = content_of_step(blueprint, original, blueprint.config.model.dtype);
  const ExportPlan plan(content, shards, blueprint.config.export_.max_shard_bytes, {0});
  ProgressLine progress("export", console::is_terminal());
  const Stopwatch watch;
  const Companions companions = companion_files(directory);
  export_step({step, directory, blueprint.model.manifest, plan, original, companions.files,
               [&](std::int64_t done, std::int64_t total) {
                 console::raw(progress.update(done, total, watch.seconds()));
               }},
              arguments.output);
  console::line("export    step {}: {} tensors, {} in {} files: {}", step.step, plan.tensor_count(),
                format_bytes(plan.file_bytes()), plan.files().size(), arguments.output.string());
  return 0;
}

}  // namespace sluice
