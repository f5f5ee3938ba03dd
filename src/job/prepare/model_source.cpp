#include "job/prepare/model_source.hpp"

#include "adapter/peft_config.hpp"
#include "base/at_place.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/saved_weights.hpp"
#include "checkpoint/step_source.hpp"
#include "manifest/adapter_targets.hpp"
#include "manifest/name_pattern.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Key that names the adapter of a job, and the value of that key in `config`, a JobConfig.
const char* adapter_key(const JobConfig& config) {
  return is_training(config.job.kind) ? "lora.start" : "model.adapter";
}
template <class Config>
auto& adapter_directory(Config& config) {
  return is_training(config.job.kind) ? config.lora.start : config.model.adapter;
}

bool holds(const fs::path& directory, std::string_view file) {
  std::error_code error;
  return fs::exists(directory / file, error);
}

/// The checkpoint that the value of a key means; nothing if it means none.
std::optional<FoundStep> step_of(const char* key, const fs::path& path, std::int64_t which) {
  return at_place(key, [&] { return find_step(path, which, ExitCode::kBadConfig); });
}

/// Sets the base model of a checkpoint that has only adapters.
void take_base(JobConfig& config, const FoundStep& found) {
  const std::string path = found.path.string();
  if (is_training(config.job.kind))
    fail(
        {ExitCode::kBadConfig, "job.adapter"},
        "model.path: {} holds adapters alone, expected a model. lora.start = \"{}\" with the model that they "
        "adapt goes on from them; `sluice checkpoint export --merge` makes a model of both",
        path, path);
  if (!config.model.adapter.empty())
    fail({ExitCode::kBadConfig, "job.adapter"},
         "model.adapter: found {}, expected none, because model.path, {}, brings an adapter of its own",
         config.model.adapter.string(), path);
  const fs::path base = found.step.path("model.path");
  if (!holds(base, "config.json"))
    fail({ExitCode::kBadData, "job.adapter"},
         "model.path: {} holds adapters alone, and the model that they were trained on, {}, is not there. "
         "Name it as model.path, and {} as model.adapter",
         path, base.string(), path);
  config.model.path = base;
  config.model.adapter = found.path;
}

void take_model(JobConfig& config) {
  const fs::path& path = config.model.path;
  if (holds(path, "config.json") && !is_saved_step(path)) return;
  const std::optional<FoundStep> found = step_of("model.path", path, config.model.step);
  if (!found) return;
  if (found->step.holds_adapters()) return take_base(config, *found);
  config.model.path = found->path;
}

void take_adapter(JobConfig& config) {
  const char* const key = adapter_key(config);
  fs::path& path = adapter_directory(config);
  if (path.empty() || holds(path, kPeftConfigFile)) return;
  const std::optional<FoundStep> found = step_of(key, path, config.model.step);
  if (!found) {  // the folder of the directory that holds an adapter, if there is one
    path = at_place(key, [&] { return find_peft_adapter(path); });
    return;
  }
  if (!found->step.holds_adapters())
    fail({ExitCode::kBadData, "job.adapter"}, "{}: {} holds a model's weights and no adapter", key,
         found->path.string());
  path = found->path;
}

/// Checks lora.rank beside lora.start, where it is superfluous or a mistake.
void require_rank(const PeftAdapter& adapter, std::int64_t rank) {
  const std::vector<AdaptedTensor>& tensors = adapter.adapters.tensors;
  if (rank == 0 || std::ranges::find(tensors, rank, &AdaptedTensor::rank) != tensors.end()) return;
  fail({ExitCode::kBadConfig, "job.adapter"},
       "lora.rank: found {}, expected {} or 0, because that is the rank of {}", rank, tensors.front().rank,
       adapter.files.front().path.parent_path().string());
}

/// Job with the [lora] of the job that saved a checkpoint.
JobConfig lora_job_of(const SavedStep& step) {
  std::vector<std::string> overrides{"job.kind=load", "job.output=none", "model.path=model"};
  for (const ConfigEntry& entry : step.job)
    if (entry.key.starts_with("lora.")) overrides.push_back(entry.key + "=" + entry.value);
  JobConfig config = parse_job_config("", "a checkpoint", overrides);
  config.job.kind = JobKind::kTrain;
  return config;
}

PeftAdapter read_from(const fs::path& directory, const ParameterManifest& manifest) {
  if (!is_saved_step(directory)) return read_peft_adapter(directory, manifest);
  const SavedStep step = read_saved_step(directory);
  return saved_adapter(step, directory, adapters_of(step, manifest), manifest);
}

}  // namespace

JobConfig with_saved_sources(JobConfig config) {
  take_adapter(config);
  take_model(config);
  config.model.step = kNewestStep;  // the paths name the checkpoint now
  return config;
}

SavedAdapters adapters_of(const SavedStep& step, const ParameterManifest& manifest) {
  if (!step.adapters.description.empty()) return step.adapters;
  const JobConfig config = lora_job_of(step);
  if (!config.lora.start.empty()) {
    PeftAdapter start = read_peft_adapter(step.path("lora.start"), manifest);
    return {std::move(start.adapters), start.style};
  }
  return {described_adapters(config, manifest), {config.lora.rslora, manifest.wrapped_name("model.")}};
}

bool has_adapter_directory(const JobConfig& config) { return !adapter_directory(config).empty(); }

PeftAdapter read_adapter(const JobConfig& config, const ParameterManifest& manifest) {
  const bool trains = is_training(config.job.kind);
  try {
    PeftAdapter adapter = read_from(adapter_directory(config), manifest);
    if (trains) require_rank(adapter, config.lora.rank);
    return adapter;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kBadConfig) throw;
    fail(error.cause(), "{}: {}", adapter_key(config), error.what());
  }
}

AdapterDescription described_adapters(const JobConfig& config, const ParameterManifest& manifest) {
  const LoraSettings& lora = config.lora;
  AdapterDescription adapters;
  if (!is_training(config.job.kind) || lora.rank == 0) return adapters;
  const double alpha = lora.alpha == 0 ? static_cast<double>(lora.rank) : lora.alpha;
  adapters.dropout = lora.dropout;
  for (const std::string& base : adapter_targets(manifest, lora.targets))
    adapters.tensors.push_back({base, lora.rank, alpha / scale_divisor(lora.rank, ScaleRule{lora.rslora})});
  require_no_dropout(adapters, manifest);
  return adapters;
}

void require_no_dropout(const AdapterDescription& adapters, const ParameterManifest& manifest) {
  if (adapters.dropout == 0) return;
  for (const AdaptedTensor& adapted : adapters.tensors) {
    const auto weight = find_adaptable(manifest, adapted.base);
    SLUICE_ASSERT(weight.has_value(), "{} cannot be adapted", adapted.base);
    const Role role = weight->info.role;
    if (role == Role::kExpert || role == Role::kRouter)
      fail({ExitCode::kBadConfig, "job.adapter"},
           "lora.dropout: found {}, expected 0, because {} is adapted, and routers and routed experts are "
           "parameters that have no inputs of their own to leave out; lora.targets = \"{}\" adapts all "
           "projections but those",
           adapters.dropout, adapted.base, kLinearModules);
  }
}

void freeze_parameters(const JobConfig& config, ParameterManifest& manifest) {
  if (!is_training(config.job.kind)) return;
  for (const std::string& pattern : config.train.freeze) {
    bool means_any = false;
    for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor) {
      const bool is_stored = manifest[tensor].kind != TensorKind::kComputedBuffer;
      if (!is_stored || !matches_pattern(pattern, manifest[tensor].name)) continue;
      means_any = true;
      manifest.freeze(tensor);
    }
    if (!means_any)
      fail({ExitCode::kBadConfig, "manifest.no_match"},
           "train.freeze: \"{}\" means no tensor of this model, expected a pattern of names such as "
           "\"model.layers.0.*\"; `sluice inspect` lists them",
           printable(pattern));
  }
  if (manifest.trained_parameter_count() == 0)
    fail({ExitCode::kBadConfig, "manifest.no_match"},
         "train.freeze: found patterns that mean every tensor, expected some to be left to train");
}

}  // namespace sluice
