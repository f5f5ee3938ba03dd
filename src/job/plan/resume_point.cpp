#include "job/plan/resume_point.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/step_source.hpp"
#include "comm/run_together.hpp"
#include "config/job_copy.hpp"
#include "config/schema.hpp"
#include "io/file.hpp"
#include "manifest/adapter_targets.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace sluice {
namespace {

namespace fs = std::filesystem;

void require_same_training(const FoundStep& found, const JobConfig& config) {
  std::vector<std::string> refused;
  for (const ChangedKey& change : changed_keys(found.step.job, config))
    if (!change.is_allowed)
      refused.push_back(fmt::format("\n  {} is {}, and was {}", change.key, change.now, change.before));
  if (refused.empty()) return;
  fail(
      {ExitCode::kBadConfig, "job.resume"},
      "checkpoint.resume: {} was saved by a training that this job cannot go on with:{}\nGive the keys their "
      "values again, or give this job another job.output, or begin anew with job.overwrite = true",
      found.path.string(), fmt::join(refused, ""));
}

/// Checks that the checkpoint for which the job asks exists, and that the job can resume from it.
void require_found(const JobConfig& config, const std::optional<FoundStep>& found, bool is_empty) {
  const std::int64_t which = config.checkpoint.resume;
  if (!found && !(which < 0 && is_empty))
    fail({ExitCode::kBadConfig, "checkpoint.no_such_step"}, "checkpoint.resume: found {}: {}",
         which == kBestStep ? "\"best\"" : fmt::format("{}", which),
         missing_step_text(checkpoint_directory(config), which));
  if (found) require_same_training(*found, config);
}

bool begins_anew(const JobConfig& config) {
  const std::int64_t resume = config.checkpoint.resume;
  return !is_training(config.job.kind) || resume == CheckpointSettings::kResumeNever ||
         (config.job.overwrite && resume == CheckpointSettings::kResumeNewest);
}

std::string changed_tokens(const DataSettings& data) {
  if (data.source.empty()) return fmt::format("data.tokens: {} has changed", data.tokens.string());
  std::vector<std::string> files;
  for (const SourceSettings& source : data.source) files.push_back(source.tokens.string());
  return fmt::format("data.source: of the {} files {} one has changed, or their order has", files.size(),
                     fmt::join(files, ", "));
}

/// Keys that changed since the run directory's copy of a job was written; nothing if that cannot be told.
std::optional<std::vector<ChangedKey>> changes_since_run(const JobConfig& config) {
  constexpr std::int64_t kMostBytes = kMiB;
  try {
    const fs::path file = config.job.output / kJobCopyFile;
    const JobConfig before = parse_job_config(read_text_file(file, kMostBytes), file.string());
    return changed_keys(canonical_entries(before), config);
  } catch (const Error&) {
    return std::nullopt;  // the copy is another program's, or of another version
  }
}

/// Whether a changed key only follows from a new name: earlier versions called kLinearModules kAllLinear, and
/// the checkpoint's structure tells which of the two was meant.
bool is_renamed_target(const ConfigEntry& before, const ConfigEntry& now) {
  if (now.key != "lora.targets") return false;
  const std::string old_name = fmt::format("\"{}\"", kAllLinear);
  const std::size_t at = before.value.find(old_name);
  if (at == std::string::npos) return false;
  std::string renamed = before.value;
  return renamed.replace(at, old_name.size(), fmt::format("\"{}\"", kLinearModules)) == now.value;
}

/// Advice if a name of targets may have meant less when the checkpoint was saved, or "".
std::string former_targets_text(const Blueprint& blueprint) {
  const LoraSettings& lora = blueprint.config.lora;
  const bool may_differ = lora.trains() && blueprint.model.config.experts > 0 &&
                          std::ranges::find(lora.targets, kAllLinear) != lora.targets.end();
  if (!may_differ) return "";
  return fmt::format(
      ". Likely cause: a version saved it in which lora.targets = \"{}\" left routed experts out; \"{}\" in "
      "its place goes on from there",
      kAllLinear, kLinearModules);
}

}  // namespace

std::vector<ChangedKey> changed_keys(std::span<const ConfigEntry> before, const JobConfig& now) {
  std::vector<ChangedKey> changes;
  for (const ConfigEntry& entry : canonical_entries(now)) {
    const auto was = std::ranges::find(before, entry.key, &ConfigEntry::key);
    if (was == before.end() || was->value == entry.value || entry.key == "optimizer.fit") continue;
    const KeyRules rules = rules_of(entry.key);
    if (now.optimizer.fit == OptimizerFit::kAuto && rules.is_chosen_by_fit) continue;
    changes.push_back(
        {entry.key, was->value, entry.value, !rules.is_fixed || is_renamed_target(*was, entry)});
  }
  return changes;
}

std::optional<HeldStep> find_resume_point(Communicator& comm, const RankDisks& disks, const JobConfig& config,
                                          const TellBroken& on_broken) {
  if (begins_anew(config)) return std::nullopt;
  const HeldSteps steps(comm, disks, checkpoint_directory(config));
  std::optional<HeldStep> held = steps.find(config.checkpoint.resume, on_broken);
  run_together(comm, [&] {
    require_found(config, held ? std::optional(held->found) : std::nullopt, steps.steps().empty());
  });
  return held;
}

void require_same_model(const FoundStep& found, const Blueprint& blueprint) {
  const std::string structure = blueprint.model.manifest.structure_hash().hex();
  if (found.step.structure_hash == structure) return;
  fail({ExitCode::kBadConfig, "job.resume"},
       "checkpoint.resume: {} was saved of another model: its structure is {}, and that of model.path, with "
       "[lora] and train.freeze, {}{}",
       found.path.string(), found.step.structure_hash, structure, former_targets_text(blueprint));
}

std::string resume_text(const JobConfig& config, const FoundStep& found) {
  std::string text = fmt::format("from step {}, saved {} by {}: {}", found.step.step, found.step.saved,
                                 counted(found.step.world_size, "rank"), found.path.string());
  for (const ChangedKey& change : changed_keys(found.step.job, config))
    text += fmt::format("\n          {} is {}, and was {}", change.key, change.now, change.before);
  return text;
}

void require_same_data(const FoundStep& found, const DataSettings& settings, const DataIdentity& data) {
  const bool is_alike = found.step.sequences == data.sequences && found.step.data_digest == data.digest;
  const bool has_whole = !found.step.whole_data_digest.empty() && !data.whole.empty();
  if (is_alike && (!has_whole || found.step.whole_data_digest == data.whole)) return;
  fail({ExitCode::kBadData, "job.resume"},
       "{} since {} was saved: {} sequences with digest {}, and there were {} with {}",
       changed_tokens(settings), found.path.string(), data.sequences, is_alike ? data.whole : data.digest,
       found.step.sequences, is_alike ? found.step.whole_data_digest : found.step.data_digest);
}

void require_same_base(const FoundStep& found, const ModelSettings& model, const std::string& digest) {
  if (found.step.base_digest == digest) return;
  const std::string format = name_of(model.frozen_format), before = found.step.text("model.frozen_format");
  const bool was_quantised =
      !before.empty() && before != name_of(FrozenFormat::kDType) && before != name_of(FrozenFormat::kStored);
  if (before != format && (was_quantised || is_quantised_by_load(model.frozen_format)))
    fail(
        {ExitCode::kBadConfig, "job.resume"},
        "model.frozen_format: found \"{}\", expected \"{}\", because {} was trained on frozen weights in that form, "
        "which are other numbers: their digest was {}, and is {}",
        format, before, found.path.string(), found.step.base_digest, digest);
  fail({ExitCode::kBadData, "job.resume"},
       "model.path: {} is not what {} was trained on: its frozen weights have digest {}, and had {}. Likely "
       "cause: another revision of the model",
       model.path.string(), found.path.string(), digest, found.step.base_digest);
}

bool has_saved_steps(const JobConfig& config) {
  return !begins_anew(config) && !list_steps(checkpoint_directory(config)).empty();
}

bool is_job_of_run(const JobConfig& config) {
  const auto changes = changes_since_run(config);
  return changes && changes->empty();
}

JobConfig with_saved_mode(JobConfig config, const std::optional<FoundStep>& found) {
  if (!found || config.optimizer.fit != OptimizerFit::kAuto) return config;
  std::vector<std::string> overrides{"optimizer.fit=\"as_written\""};
  for (const ConfigEntry& entry : found->step.job)
    if (rules_of(entry.key).is_chosen_by_fit ||
        (entry.key == "memory.offload" && entry.value == "\"source\""))
      overrides.push_back(fmt::format("{}={}", entry.key, entry.value));
  return parse_job_config(to_toml(config), found->path.string(), overrides);
}

bool begins_run_again(const JobConfig& config) {
  if (begins_anew(config) || !config.checkpoint.saves()) return false;
  const auto changes = changes_since_run(config);
  return changes && std::ranges::all_of(*changes, &ChangedKey::is_allowed);
}

}  // namespace sluice
