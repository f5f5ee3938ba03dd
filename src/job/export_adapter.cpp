#include "job/export_adapter.hpp"

#include "adapter/merged_values.hpp"
#include "adapter/peft_layout.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "job/console.hpp"
#include "job/export_weights.hpp"

#include <filesystem>
#include <system_error>

namespace sluice {
/// Style of the adapter's names: the style of the directory with which the job began, or else of the class
/// that config.json names.
PeftStyle adapter_style(const Blueprint& blueprint) {
  if (blueprint.adapter) return blueprint.adapter->style;
  return {blueprint.config.lora.rslora, blueprint.model.manifest.wrapped_name("model.")};
}

std::string base_model_name(const std::filesystem::path& model) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(model, error);
  return (error ? model : absolute.lexically_normal()).string();
}

bool exports_adapter(const Blueprint& blueprint) {
  return !blueprint.model.adapters.empty() && blueprint.config.export_.adapters == ExportAdapters::kKeep;
}

std::int64_t adapter_bytes(const Blueprint& blueprint) {
  std::int64_t bytes = 0;
  for (const PeftTensor& tensor : peft_tensors(blueprint.model.adapters, blueprint.model.manifest, {}))
    bytes += tensor.parts.back().end() * size_of(tensor.entry.dtype);
  return bytes;
}

AdapterSaveOptions adapter_save_options(const Blueprint& blueprint) {
  const JobConfig& config = blueprint.config;
  AdapterSaveOptions options;
  options.style = adapter_style(blueprint);
  options.base_model = base_model_name(config.model.path);
  options.chunk_bytes = config.load.chunk_bytes;
  return options;
}

void export_adapter(JobContext& context, const ShardValues& values) {
  const JobConfig& config = context.config();
  const Blueprint& blueprint = context.blueprint;
  context.comm.set_deadline("export", config.deadline.load_seconds);
  context.directory.set_status("exporting");
  const Stopwatch watch;
  const std::filesystem::path directory =
      save_adapter(context.comm, blueprint.model.adapters, blueprint.model.manifest, values,
                   config.export_.path, adapter_save_options(blueprint));
  if (!context.is_root()) return;
  console::line("export    adapters of {} weights, {}, {:.2f} s: {}", blueprint.model.adapters.tensors.size(),
                format_bytes(adapter_bytes(blueprint)), watch.seconds(), directory.string());
}

void export_model(JobContext& context, const ShardValues& values, ShardArena& weights) {
  const Blueprint& blueprint = context.blueprint;
  if (blueprint.model.adapters.empty()) return export_weights(context, values);
  if (exports_adapter(blueprint)) return export_adapter(context, values);
  context.comm.set_deadline("export", context.config().deadline.load_seconds);
  const std::vector<StoredChange> changes = merge_adapters(context.comm, blueprint.model.manifest, values,
                                                           weights, context.config().load.chunk_bytes);
  const ArenaValues base(weights);
  export_weights(context, MergedValues(base, changes));
}

}  // namespace sluice
