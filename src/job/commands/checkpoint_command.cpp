#include "adapter/adapter_save.hpp"
#include "adapter/merge.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/block_reader.hpp"
#include "checkpoint/export_step.hpp"
#include "checkpoint/saved_weights.hpp"
#include "checkpoint/step_source.hpp"
#include "comm/outcome.hpp"
#include "config/job_config.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "job/export_model.hpp"
#include "job/prepare/blueprint.hpp"
#include "job/prepare/model_source.hpp"
#include "process/console.hpp"
#include "process/progress_line.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/companion_files.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct CheckpointArguments {
  std::filesystem::path run;  ///< a run's directory, a directory of checkpoints, or one checkpoint
  /// Step of the checkpoint, kNewestStep or kBestStep; nothing: all, or for an export the newest.
  std::optional<std::int64_t> step;
  /// Whether adapters are exported as a part of the model on which they were trained.
  bool merge = false;
  std::filesystem::path output;  ///< Hugging Face directory to write
  bool json = false;
};

namespace fs = std::filesystem;

/// Verifies every byte of a checkpoint.
void verify_step(const StepPlace& place) {
  const Stopwatch watch;
  const SavedStep step = read_saved_step(place.path);
  require_all_files(place.path, step);
  for (const SavedFile& file : step.files) BlockReader(place.path, file).verify();
  console::line("step {}: {} in {} are what was saved, {:.2f} s", place.step, format_bytes(step.bytes()),
                counted(std::ssize(step.files), "file"), watch.seconds());
}

/// The checkpoint that the command line names, or the newest.
FoundStep chosen_step(const CheckpointArguments& arguments) {
  auto found = find_step(arguments.run, arguments.step.value_or(kNewestStep), ExitCode::kUsage);
  if (!found) static_cast<void>(steps_at(arguments.run));  // throws the error that there are none
  SLUICE_ASSERT(found.has_value(), "{} has steps, and none was found", arguments.run.string());
  return *std::move(found);
}

/// Element type in which a checkpoint's weights were trained.
DType dtype_of(const SavedStep& step) {
  return dtype_from_name(step.text("model.dtype")).value_or(DType::kBFloat16);
}

/// Content of an export in the layout of the original model, with the tensors that training left out, if the
/// original still exists.
ExportContent content_of_step(const Blueprint& blueprint, const fs::path& original, DType dtype) {
  if (!original.empty() && holds_weights(original)) {
    const CheckpointIndex source = read_checkpoint_index(original);
    static_cast<void>(match_checkpoint(source, blueprint.keys, dtype));
    return content_like(source, blueprint.keys, std::nullopt);
  }
  return content_of(blueprint.keys, ExpertLayout::kPerExpert, blueprint.model.config.published_dtype);
}

/// Weights of the model on which adapters were trained, from a Hugging Face directory or a checkpoint.
MatchedCheckpoint weights_of(const Blueprint& blueprint) {
  const fs::path& model = blueprint.config.model.path;
  if (is_saved_step(model))
    return saved_weights(read_saved_step(model), model, blueprint.model.manifest, DType::kFloat32);
  MatchedCheckpoint out;
  out.index = read_checkpoint_index(model);
  out.match = match_checkpoint(out.index, blueprint.keys, DType::kFloat32);
  return out;
}

/// Exports a checkpoint's adapters; needs only the checkpoint, which has the model's config.json.
void export_adapters(const FoundStep& found, const fs::path& output) {
  ModelDescription model = describe_model(found.path, dtype_of(found.step));
  const SavedAdapters adapters = adapters_of(found.step, model.manifest);
  model.adapters = adapters.description;
  add_adapters(model.manifest, model.adapters);
  if (model.manifest.structure_hash().hex() != found.step.structure_hash)
    fail({ExitCode::kBadData, "checkpoint.other_model"},
         "{}: was trained with other tensors than its config.json describes", found.path.string());
  const UnitLayouts layouts = make_unit_layouts(model.manifest);
  AdapterSaveOptions options;
  options.style = adapters.style;
  options.base_model = base_model_name(found.step.path("model.path"));
  export_adapter_step(found.step, found.path, model, ShardPlan(layouts, {1, 1}), output, options);
  console::line("export    step {}: adapters of {}: {}", found.step.step,
                counted(std::ssize(model.adapters.tensors), "weight"), output.string());
}

/// Exports the model of a checkpoint, or with kMerge the model on which its adapters were trained, with them.
void export_weights_of(const FoundStep& found, ExportAdapters adapters, const fs::path& output) {
  JobConfig config;
  config.job.kind = JobKind::kExport;
  config.model.path = found.path;
  config.model.dtype = dtype_of(found.step);
  config.export_.adapters = adapters;
  const Blueprint blueprint(std::move(config));
  const fs::path& model = blueprint.config.model.path;
  std::optional<MatchedCheckpoint> base;
  if (adapters == ExportAdapters::kMerge) {
    require_mergeable(blueprint.model.manifest);
    base = weights_of(blueprint);
  }
  const fs::path original = is_saved_step(model) ? read_saved_step(model).path("model.path") : model;
  const ShardPlan shards = blueprint.shard_plan(1);
  const ExportPlan plan(content_of_step(blueprint, original, blueprint.config.model.dtype), shards,
                        blueprint.config.export_.max_shard_bytes, {0});
  ProgressLine progress("export");
  const Companions companions = companion_files(model);
  const ExportStepRequest request{found.step, found.path,       blueprint.model.manifest, plan,
                                  original,   companions.files, std::ref(progress)};
  if (base)
    export_merged_step(request, {*base, model}, output);
  else
    export_step(request, output);
  console::line("export    step {}: {}, {} in {}: {}", found.step.step,
                counted(plan.tensor_count(), "tensor"), format_bytes(plan.file_bytes()),
                counted(std::ssize(plan.files()), "file"), output.string());
}

/// Lists the checkpoints of a run and whether they are complete. Error(kBadData) if there are none; the exit
/// status is that of one that is incomplete.
int checkpoint_list_command(const CheckpointArguments& arguments) {
  const nlohmann::json steps = list_as_json(steps_at(arguments.run));
  std::vector<std::vector<std::string>> rows = rows_of_steps(steps);
  rows.insert(rows.begin(), {"step", "saved", "ranks", "bytes", "state"});
  if (arguments.json)
    print_json(steps);
  else
    console::write_line(console::table(rows));
  int code = 0;
  for (const nlohmann::json& one : steps) code = one.value("code", code);
  return code;
}

/// Verifies every byte of checkpoints. Error(kBadData), after all were read, if one is not what was saved.
int checkpoint_verify_command(const CheckpointArguments& arguments) {
  Outcome first;
  std::vector<StepPlace> steps;
  if (arguments.step) {
    const FoundStep found = chosen_step(arguments);
    steps = {{found.step.step, found.path}};
  } else {
    steps = steps_at(arguments.run);
  }
  for (const StepPlace& place : steps) {
    const Outcome outcome = outcome_of([&] { verify_step(place); });
    if (!outcome.failed()) continue;
    console::line("step {}: {}", place.step, outcome.text);
    if (!first.failed()) first = outcome;
  }
  if (first.failed()) fail(first, "{}", first.text);
  return 0;
}

/// Exports the weights of a checkpoint to a Hugging Face directory, or its adapters to one for PEFT, with a
/// few buffers of some MiB.
int checkpoint_export_command(const CheckpointArguments& arguments) {
  const FoundStep found = chosen_step(arguments);
  require_all_files(found.path, found.step);
  const bool has_adapters = found.step.holds_adapters();
  if (arguments.merge && !has_adapters)
    fail({ExitCode::kUsage, "command.usage"},
         "--merge: step {} of {} holds whole weights, and no adapters to merge", found.step.step,
         arguments.run.string());
  if (has_adapters && !arguments.merge)
    export_adapters(found, arguments.output);
  else
    export_weights_of(found, arguments.merge ? ExportAdapters::kMerge : ExportAdapters::kKeep,
                      arguments.output);
  return 0;
}

/// Adds the option --step: a number, newest or best.
void add_step(CLI::App& command, std::optional<std::int64_t>& step, const char* help) {
  command.add_option_function<std::string>(
      "--step",
      [&step](const std::string& text) {
        const std::optional<std::int64_t> number = whole_number(text);
        if (text == "best")
          step = kBestStep;
        else if (text == "newest")
          step = kNewestStep;
        else if (number)
          step = number;
        else
          throw CLI::ValidationError("--step",
                                     "'" + text + "' is not a step: expected a number, newest or best");
      },
      help);
}

}  // namespace

/// Adds the commands "checkpoint ls RUN" and so on.
void add_checkpoint(CommandLine& line) {
  CLI::App& group = *line.app.add_subcommand("checkpoint", "Saved steps of a run: list, verify, export");
  group.require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*run)(const CheckpointArguments&)) {
    const auto part = add_command<CheckpointArguments>(line, group, name, help, run);
    part.app.add_option("run", part.arguments.run, "Run directory, its checkpoint.path, or one checkpoint")
        ->required();
    return part;
  };
  const auto listing = add("ls", "List the checkpoints, and whether they are whole", checkpoint_list_command);
  listing.app.add_flag("--json", listing.arguments.json, "Print JSON");
  const auto verifying = add("verify", "Read every byte of them", checkpoint_verify_command);
  add_step(verifying.app, verifying.arguments.step, "Of this step alone: a number, newest or best");
  const auto exporting =
      add("export", "Write a Hugging Face directory, or an adapter for PEFT, from one of them",
          checkpoint_export_command);
  exporting.app.add_option("out_dir", exporting.arguments.output, "Directory to create")->required();
  add_step(exporting.app, exporting.arguments.step,
           "Which: a number, newest or best (lowest held-out loss); default: the newest");
  exporting.app.add_flag("--merge", exporting.arguments.merge,
                         "Write adapters as a part of the model that they were trained on");
}

}  // namespace sluice
