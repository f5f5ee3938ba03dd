#include "job/prepare/model_source.hpp"

#include "adapter/peft_config.hpp"
#include "base/error.hpp"
#include "checkpoint/step_source.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& directory, std::string_view file) {
  std::error_code error;
  return fs::exists(directory / file, error);
}

/// The checkpoint that the value of a key means; nothing if it means none.
std::optional<FoundStep> step_of(const char* key, const fs::path& path, std::int64_t which) {
  try {
    return find_step(path, which, ExitCode::kBadConfig);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", key, error.what());
  }
}

/// Sets the base model of a checkpoint that has only adapters.
void take_base(JobConfig& config, const FoundStep& found) {
  const std::string path = found.path.string();
  if (config.job.kind == JobKind::kTrain)
    fail(
        ExitCode::kBadConfig,
        "model.path: {} holds adapters alone, expected a model. lora.start = \"{}\" with the model that they "
        "adapt goes on from them; `sluice checkpoint export --merge` makes a model of both",
        path, path);
  if (!config.model.adapter.empty())
    fail(ExitCode::kBadConfig,
         "model.adapter: found {}, expected none, because model.path, {}, brings an adapter of its own",
         config.model.adapter.string(), path);
  const fs::path base = found.step.path("model.path");
  if (!holds(base, "config.json"))
    fail(ExitCode::kBadData,
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
  const bool trains = config.job.kind == JobKind::kTrain;
  const char* const key = trains ? "lora.start" : "model.adapter";
  fs::path& path = trains ? config.lora.start : config.model.adapter;
  if (path.empty() || holds(path, kPeftConfigFile)) return;
  const std::optional<FoundStep> found = step_of(key, path, config.model.step);
  if (!found) return;
  if (!found->step.holds_adapters())
    fail(ExitCode::kBadData, "{}: {} holds a model's weights and no adapter", key, found->path.string());
  path = found->path;
}

}  // namespace

JobConfig with_saved_sources(JobConfig config) {
  take_adapter(config);
  take_model(config);
  config.model.step = kNewestStep;  // the paths name the checkpoint now
  return config;
}

}  // namespace sluice
