#include "job/export_model.hpp"

#include "adapter/adapter_save.hpp"
#include "adapter/merge.hpp"
#include "adapter/merged_values.hpp"
#include "adapter/peft_layout.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/long_work.hpp"
#include "comm/run_together.hpp"
#include "comm/solo_communicator.hpp"
#include "export/export_plan.hpp"
#include "export/export_tensors.hpp"
#include "export/streaming_exporter.hpp"
#include "io/file.hpp"
#include "io/staged_directory.hpp"
#include "job/prepare/target_place.hpp"
#include "process/console.hpp"
#include "process/progress_line.hpp"
#include "weights/checkpoint_match.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::optional<ExpertLayout> chosen_layout(ExportExperts experts) {
  switch (experts) {
    case ExportExperts::kPerExpert:
      return ExpertLayout::kPerExpert;
    case ExportExperts::kFused:
      return ExpertLayout::kFused;
    case ExportExperts::kSource:
      break;
  }
  return std::nullopt;
}

bool is_as_source(const JobConfig& config) { return config.export_.format == ExportFormat::kSource; }

/// Function that tells whether the job changes a tensor of the manifest from what it is in model.path.
std::function<bool(int)> changed_tensors(const Blueprint& blueprint) {
  const JobConfig& config = blueprint.config;
  const ParameterManifest& manifest = blueprint.model.manifest;
  std::set<int> changed;
  for (const AdaptedWeight& adapted : adapted_weights(manifest)) changed.insert(adapted.weight);
  if (is_quantised_by_load(config.model.frozen_format)) {
    const std::vector<int> rounded = blueprint.stored.tensors();
    changed.insert(rounded.begin(), rounded.end());
  }
  if (is_training(config.job.kind))
    for (int tensor = 0; tensor < std::ssize(manifest.tensors()); ++tensor) {
      const TensorInfo& info = manifest[tensor];
      if (!info.frozen && (is_parameter(info.kind) || config.train.router_bias_update_rate > 0))
        changed.insert(tensor);
    }
  return [changed = std::move(changed)](int tensor) { return changed.contains(tensor); };
}

/// Collective over `comm`. Content of the job's export, like the files of model.path if it `has_source`. Weights that
/// were drawn are written expert by expert, like most checkpoints, unless the job says otherwise.
ExportContent content_of_job(Communicator& comm, const Blueprint& blueprint, bool has_source) {
  const JobConfig& config = blueprint.config;
  const std::optional<ExpertLayout> layout = chosen_layout(config.export_.experts);
  if (!has_source)
    return content_of(blueprint.keys, layout.value_or(ExpertLayout::kPerExpert),
                      blueprint.model.config.published_dtype);
  const CheckpointIndex weights = share_checkpoint_index(comm, config.model.path, QuantisedAs::kWeights);
  static_cast<void>(match_checkpoint(weights, blueprint.keys, config.model.dtype));
  if (!is_as_source(config)) return content_like(weights, blueprint.keys, layout);
  return content_as_stored(weights, share_checkpoint_index(comm, config.model.path, QuantisedAs::kStored),
                           blueprint.keys, changed_tensors(blueprint));
}

/// Error(kBadConfig) if an export must be like its source, but model.path has no weights.
void require_source(const JobConfig& config) {
  if (is_as_source(config) && !holds_weights(config.model.path))
    fail({ExitCode::kBadConfig, "job.not_for_model"},
         "export.format: found \"source\", expected \"plain\", because model.path, {}, is not a published "
         "checkpoint whose bytes could be copied",
         config.model.path.string());
}

/// Ranks that see the files of model.path.
std::vector<int> source_readers(const JobConfig& config, int world) {
  std::vector<int> ranks(config.load.readers == Readers::kRank0 ? 1 : static_cast<std::size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

ExportPlan make_plan(const Blueprint& blueprint, const ShardPlan& shards, const ExportContent& content) {
  return {content, shards, blueprint.config.export_.max_shard_bytes,
          source_readers(blueprint.config, shards.world())};
}

/// Warns of shards in bfloat16 if files have another type, since bfloat16 holds the digits of no other type.
void warn_of_rounding(const ExportContent& content, const ParameterManifest& manifest, DType shards) {
  if (shards != DType::kBFloat16) return;
  const auto rounded = std::ranges::count_if(content.tensors, [&](const ExportTensor& tensor) {
    return !tensor.is_copied() && tensor.part == StoredPart::kValues && tensor.dtype != DType::kBFloat16 &&
           manifest[tensor.target.tensor()].kind == TensorKind::kParameter;
  });
  if (rounded > 0)
    log::warning(
        "{} of model.path that {} not bfloat16 {} rounded to it when it was loaded; model.dtype = \"float32\" keeps "
        "all digits",
        counted(rounded, "tensor"), is_or_are(rounded), rounded == 1 ? "was" : "were");
}

/// Companion files of model.path, for weights that are stored as there or as plain numbers.
Companions companions_of(const JobConfig& config) {
  return companion_files(config.model.path,
                         is_as_source(config) ? WeightStorage::kAsConfigSays : WeightStorage::kPlain);
}

/// Content that is written, and companion files that are copied.
struct Written {
  ExportPlan plan;
  std::vector<CompanionFile> companions;  ///< companion files, on rank 0 alone
};

/// Collective over the context's communicator. Plans an export with its source. Only the plan is kept while
/// files are written.
Written plan_with_source(JobContext& context, DType shards) {
  const JobConfig& config = context.config();
  const ModelSettings& model = config.model;
  const bool has_source = model.init == ModelInit::kCheckpoint && !is_saved_step(model.path);
  const ExportContent content = content_of_job(context.comm, context.blueprint, has_source);
  Companions companions;
  if (context.is_root()) {
    warn_of_rounding(content, context.blueprint.model.manifest, shards);
    companions = companions_of(config);
    log_left_behind(companions, model.path);
  }
  return {make_plan(context.blueprint, context.plan.shards, content), companions.files};
}

/// Collective over the context's communicator. Plans an export. Trained weights are written even if
/// model.path has changed since: without it only the layout of experts, types, other tensors beside the
/// model's and companion files are lost.
Written plan_of_job(JobContext& context, DType shards) {
  try {
    return plan_with_source(context, shards);
  } catch (const Error& error) {
    const bool is_of_files = error.code() == ExitCode::kBadData || error.code() == ExitCode::kIo;
    if (!is_training(context.config().job.kind) || !is_of_files) throw;
    if (context.is_root())
      log::warning(
          "{}\n  model.path has changed since training began. The trained weights are written without it: "
          "copy config.json and the tokenizer beside them",
          error.what());
  }
  return {make_plan(context.blueprint, context.plan.shards,
                    content_of_job(context.comm, context.blueprint, false)),
          {}};
}

void print_export(const ExportPlan& plan, const ExportReport& report) {
  std::vector<std::vector<std::string>> rows{{"export", "written", "copied", "staging", "peak growth"}};
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankExport& r = report.ranks[rank];
    rows.push_back({fmt::format("rank {}", rank), format_mib(r.written_bytes), format_mib(r.copied_bytes),
                    format_mib(r.staging_bytes), format_mib(r.peak_growth_bytes)});
  }
  console::write_line(console::table(rows));
  console::line("export    {}, {} in {}, {:.2f} s, {:.2f} GB/s: {}", counted(plan.tensor_count(), "tensor"),
                format_bytes(report.file_bytes), counted(std::ssize(plan.files()), "file"), report.seconds,
                static_cast<double>(report.file_bytes) / report.seconds * 1e-9, report.directory.string());
}

/// Whether a job that exports writes only its adapters.
bool exports_adapter(const Blueprint& blueprint) {
  return !blueprint.model.adapters.empty() && blueprint.config.export_.adapters == ExportAdapters::kKeep;
}

/// Bytes of the tensors in an exported adapter's directory.
std::int64_t adapter_bytes(const Blueprint& blueprint) {
  std::int64_t bytes = 0;
  for (const PeftTensor& tensor : peft_tensors(blueprint.model.adapters, blueprint.model.manifest, {}))
    bytes += tensor.parts.back().end() * size_of(tensor.entry.dtype);
  return bytes;
}

ExportSize size_of_adapter(const Blueprint& blueprint) {
  return {2 * std::ssize(blueprint.model.adapters.tensors), adapter_bytes(blueprint), 1};
}

ExportSize size_of_model(const Blueprint& blueprint, const ShardPlan& shards) {
  const JobConfig& config = blueprint.config;
  require_mergeable(blueprint.model.manifest);
  require_source(config);
  const bool has_source = config.model.init == ModelInit::kCheckpoint && holds_weights(config.model.path);
  SoloCommunicator self;
  const ExportPlan plan = make_plan(blueprint, shards, content_of_job(self, blueprint, has_source));
  plan.check_coverage();
  for (const CompanionFile& companion : companions_of(config).files)
    static_cast<void>(InputFile::open(companion.path));
  return {plan.tensor_count(), plan.file_bytes(), static_cast<int>(plan.files().size())};
}

void begin_export(JobContext& context) {
  context.comm.set_deadline("export", context.config().deadline.load_seconds);
  context.directory.set_status("exporting");
}

/// Collective over the context's communicator. Calls `act` on the ranks of the first set, which have all weights;
/// those of other sets wait, however long it takes if it calls `tell` on rank 0.
void on_first_set(const JobContext& context,
                  const std::function<void(const std::function<void()>& tell)>& act) {
  if (context.sets.counterparts() == nullptr) return act([] {});
  const bool acts_alone = context.sets.is_first() && !context.is_root();
  const std::unique_ptr<Communicator> others = context.comm.split(acts_alone ? 1 : 0, context.comm.rank());
  if (acts_alone)
    act([] {});
  else
    run_long_on_root(*others, act);
}

/// Collective.
void export_weights(JobContext& context, const ShardValues& values) {
  begin_export(context);
  const JobConfig& config = context.config();
  const Written written = plan_of_job(context, values.dtype());

  ProgressLine progress("export");
  ExportOptions options;
  options.source = config.model.path;
  options.companions = written.companions;
  options.staging_bytes = config.load.chunk_bytes;
  options.keep_cached = config.load.page_cache == CachePolicy::kKeep;
  on_first_set(context, [&](const std::function<void()>& tell) {
    options.progress = [&](std::int64_t done, std::int64_t total) {
      tell();
      progress(done, total);
    };
    const ExportReport report =
        export_checkpoint(context.sets.own(), written.plan, values, config.export_.path, options);
    if (context.is_root()) print_export(written.plan, report);
  });
}

/// Collective.
void export_adapter(JobContext& context, const ShardValues& values) {
  begin_export(context);
  const JobConfig& config = context.config();
  const Blueprint& blueprint = context.blueprint;
  AdapterSaveOptions options;
  options.style = adapter_style(blueprint);
  options.base_model = base_model_name(config.model.path);
  options.chunk_bytes = config.load.chunk_bytes;
  const Stopwatch watch;
  fs::path directory;
  on_first_set(context, [&](const std::function<void()>&) {
    directory = save_adapter(context.sets.own(), blueprint.model.adapters, blueprint.model.manifest, values,
                             config.export_.path, options);
  });
  if (!context.is_root()) return;
  console::line("export    adapters of {}, {}, {:.2f} s: {}",
                counted(std::ssize(blueprint.model.adapters.tensors), "weight"),
                format_bytes(adapter_bytes(blueprint)), watch.seconds(), directory.string());
}

}  // namespace

bool exports_weights(const JobConfig& config) {
  return config.job.kind == JobKind::kExport ||
         (is_training(config.job.kind) && config.export_.ends_with_export());
}

ExportSize check_export(const Blueprint& blueprint, const ShardPlan& shards) {
  const JobConfig& config = blueprint.config;
  if (!StagedDirectory::is_free(config.export_.path))
    fail({ExitCode::kBadConfig, "io.exists"},
         "export.path: {} is already there; choose another name or remove it", config.export_.path.string());
  if (config.export_.adapters == ExportAdapters::kMerge && blueprint.model.adapters.empty())
    fail({ExitCode::kBadConfig, "job.not_for_model"},
         "export.adapters: found \"merge\", expected \"keep\", because the job has no adapter");
  const ExportSize size =
      exports_adapter(blueprint) ? size_of_adapter(blueprint) : size_of_model(blueprint, shards);
  require_creatable("export.path", config.export_.path);
  require_room("export.path", "the export takes", config.export_.path, size.bytes,
               "Choose another place, or make room there");
  return size;
}

void require_export(JobContext& context) {
  if (!exports_weights(context.config())) return;
  run_together(context.comm, [&] {
    if (context.is_root()) static_cast<void>(check_export(context.blueprint, context.plan.shards));
  });
  require_shared_directory(context.comm, "export.path", context.config().export_.path, SeenBy::kAnyRanks);
}

void export_model(JobContext& context, const ShardValues& values, ShardArena& weights) {
  const Blueprint& blueprint = context.blueprint;
  if (blueprint.model.adapters.empty()) return export_weights(context, values);
  if (exports_adapter(blueprint)) return export_adapter(context, values);
  context.comm.set_deadline("export", context.config().deadline.load_seconds);
  const std::vector<StoredChange> changes = merge_adapters(
      context.sets.own(), blueprint.model.manifest, values, weights, context.config().load.chunk_bytes);
  const ArenaValues base(weights);
  export_weights(context, MergedValues(base, changes));
}

PeftStyle adapter_style(const Blueprint& blueprint) {
  if (blueprint.adapter) return blueprint.adapter->style;
  return {blueprint.config.lora.rslora, blueprint.model.manifest.wrapped_name("model.")};
}

std::string base_model_name(const fs::path& model) {
  std::error_code error;
  const fs::path absolute = fs::absolute(model, error);
  return (error ? model : absolute.lexically_normal()).string();
}

}  // namespace sluice
