#include "job/weights.hpp"

#include "adapter/adapter_load.hpp"
#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/run_together.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/target_place.hpp"
#include "load/checkpoint_load.hpp"
#include "load/in_files/units_in_files.hpp"
#include "process/console.hpp"
#include "process/progress_line.hpp"
#include "shard/finite_check.hpp"
#include "shard/initial_values.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

void print_shards(const JobContext& context) {
  const ModelDescription& model = context.blueprint.model;
  std::string shards;
  for (const std::int64_t bytes : context.blueprint.shard_bytes(context.plan.shards))
    shards += (shards.empty() ? "" : ", ") + format_bytes(bytes);
  console::line("model     {} with {:.3f} M parameters in {}, structure {}", model.config.model_type,
                static_cast<double>(model.manifest.parameter_count()) / 1e6,
                name_of(context.config().model.dtype), model.manifest.structure_hash().hex());
  if (const std::int64_t trained = model.manifest.trained_parameter_count();
      trained < model.manifest.parameter_count())
    console::line("trained   {:.3f} M of them", static_cast<double>(trained) / 1e6);
  const StoredTensors& stored = context.blueprint.stored;
  if (!stored.is_empty())
    console::line("stored    {:.3f} M of them {}, {}", static_cast<double>(stored.elements()) / 1e6,
                  is_quantised_by_load(context.config().model.frozen_format) ? "quantised" : "as published",
                  stored.encodings.front().text());
  console::line("shards    {}", shards);
}

void begin(JobContext& context) {
  context.comm.set_deadline("load", context.config().deadline.load_seconds);
  context.directory.set_status("loading");
  if (context.is_root()) print_shards(context);
}

/// Collective over the context's communicator. Plan of the load of the checkpoint into the shards, agreed on
/// by all ranks; brings the files that it needs to its readers.
PlannedLoad plan_load_of(const JobContext& context, std::span<const int> left_in_files = {}) {
  const ShardPlan& shards = context.plan.shards;
  const std::optional<SavedStep> step = share_saved_step(context.comm, context.config().model.path);
  fetch_weights(context.comm, context.config(), shards, context.plan.machine.nodes, step);
  PlannedLoad planned =
      plan_weights(is_passed_on(context.config()) ? context.comm : context.sets.own(), context.blueprint,
                   shards, nodes_of_set(shards, context.plan.machine.nodes, context.sets.number()),
                   context.plan.machine.device.memory(), step, left_in_files);
  if (!context.is_root()) return planned;
  for (const std::string& warning : planned.index.warnings) log::warning("{}", warning);
  for (const std::string& text : ignored_text(planned.match)) log::info("{}", text);
  return planned;
}

void print_load(const LoadReport& report, MemoryPool memory) {
  std::vector<std::vector<std::string>> rows{{"load", "shard", "received", "sent", "read", "staging",
                                              "peak growth", "page cache", "available", "seconds"}};
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankLoad& r = report.ranks[rank];
    rows.push_back({fmt::format("rank {}", rank), format_mib(r.shard_bytes), format_mib(r.received_bytes),
                    format_mib(r.sent_bytes), format_mib(r.read_bytes), format_mib(r.peak_staging_bytes),
                    format_mib(r.peak_growth_bytes),
                    r.page_cache_bytes < 0 ? "-" : format_mib(r.page_cache_bytes),
                    format_mib(r.available_bytes), fmt::format("{:.2f}", r.seconds)});
  }
  console::write_line(console::table(rows));
  if (memory != MemoryPool::kUnified) return;
  const std::int64_t pool = std::ranges::max(report.ranks, {}, &RankLoad::peak_pool_bytes).peak_pool_bytes;
  console::line("  Page cache and all processes counted, the fullest machine had {} less of free memory.",
                format_mib(pool));
}

void print_verification(const VerifyReport& report) {
  console::line("verified  {}, {} read again, content {}", counted(report.tensors, "tensor"),
                format_bytes(report.read_bytes), report.content.hex());
  if (report.non_finite > 0)
    log::warning("{} {} infinite or NaN", counted(report.non_finite, "weight"), is_or_are(report.non_finite));
}

/// Collective over the context's communicator. Runs a load with its progress, and a verification if the job
/// asks for one.
LoadReport run_load(JobContext& context, const PlannedLoad& planned, ShardArena* arena) {
  const JobConfig& config = context.config();
  ProgressLine loading("load"), verifying("verify");
  CheckpointLoadOptions options;
  options.load = load_options(config);
  options.load.baseline = context.baseline;
  options.load.progress = [&](const LoadProgress& p) {
    console::raw(loading.update(p.done_bytes, p.total_bytes, p.seconds));
  };
  options.loaded = [&](const LoadReport& report) {
    if (context.is_root()) print_load(report, memory_pool(config, context.plan.machine.device));
    verifying.restart();
  };
  if (config.load.verify) options.verify.emplace();
  if (config.load.verify && context.is_root()) options.verify->progress = std::ref(verifying);
  CheckpointLoadReport report = load_checkpoint(context.sets, planned, config.model.path, arena, options);
  if (report.verify && context.is_root()) print_verification(*report.verify);
  return std::move(report.load);
}

/// Fails if a tensor is not finite, since every number computed with it would be bad too.
void require_none(const JobConfig& config, const std::string& tensor) {
  if (tensor.empty()) return;
  const std::string model = config.model.path.string();
  fail({ExitCode::kBadData, "weights.not_finite"},
       "{}: NaN or infinity in the weights, first in {}; whatever is computed with them is the same. `sluice "
       "verify {}` lists them all. Likely cause: a damaged file, or weights of a training that has diverged",
       model, tensor, model);
}

/// Collective over the context's communicator. Fails if weights are not finite. Those on a disk are not read
/// again for this; those in the files of model.path are examined when they are first read.
void require_finite(JobContext& context, const ShardArena& arena) {
  const JobConfig& config = context.config();
  const ParameterManifest& manifest = context.blueprint.model.manifest;
  if (!is_training(config.job.kind) && !evaluates_tokens(config.job.kind)) return;
  NonFinite own;  // finding of this rank; none if its weights lie on a disk, which may differ between ranks
  if (arena.paged() == nullptr) own = find_non_finite(arena, manifest);
  require_none(config, first_of_ranks(context.comm, own));
  if (arena.elsewhere() == nullptr) return;
  arena.elsewhere()->examine_first([&config, &manifest, &stored = *arena.stored(), dtype = arena.dtype()](
                                       int unit, const std::byte* bytes) {
    require_none(config, find_non_finite(StoredUnitValues(stored, unit, bytes, dtype), manifest, unit).name);
  });
}

/// Limit on the memory that this rank may take from now on, if the job sets one.
std::optional<DataGrowthLimit> limit_memory(const JobContext& context, std::int64_t arena_bytes) {
  const std::int64_t extra = context.config().load.memory_limit_bytes;
  if (extra == 0) return std::nullopt;
  return std::optional<DataGrowthLimit>(std::in_place, arena_bytes + extra);
}

void print_offload(const std::vector<RankMemory>& ranks, const fs::path& directory) {
  std::string bytes;
  for (const RankMemory& rank : ranks)
    bytes += (bytes.empty() ? "" : ", ") + format_bytes(rank.offload.file_bytes());
  console::line("offload   {} in {}", bytes, directory.string());
}

/// Units that stay in the files of model.path, ascending, the same on all ranks.
std::vector<int> units_left_in_files(const JobContext& context) {
  std::vector<int> units;
  if (context.config().memory.offload != Offload::kSource) return units;
  const std::vector<RankMemory>& ranks = context.plan.ranks;
  for (int unit = 0; unit < std::ssize(ranks.front().offload.units); ++unit)
    if (ranks.front().offload.units[static_cast<std::size_t>(unit)].weights) units.push_back(unit);
  if (context.is_root()) print_offload(ranks, context.config().model.path);
  return units;
}

/// Collective over the context's communicator. Allocates the arena, and a file for the parts of it and of the
/// optimizer's state that do not fit.
Weights allocate_weights(JobContext& context, std::span<const int> left_in_files = {}) {
  const JobConfig& config = context.config();
  const int rank = context.comm.rank();
  Weights weights{ShardArena(context.plan.shards, context.sets.own().rank(), config.model.dtype,
                             context.plan.machine.device.memory(), "weights", ShardArena::Units::kAll,
                             &context.blueprint.stored, left_in_files),
                  std::nullopt};
  if (config.memory.offload != Offload::kDisk) return weights;
  const std::vector<RankMemory>& ranks = context.plan.ranks;
  if (context.is_root()) print_offload(ranks, offload_directory(config));
  const OffloadPlan& plan = ranks[static_cast<std::size_t>(rank)].offload;
  run_together(context.comm, [&] {
    if (plan.units.empty()) return;
    std::error_code error;
    fs::create_directories(offload_directory(config), error);
    weights.arena.page_to(plan, offload_directory(config), config.deadline.step_seconds);
  });
  return weights;
}

/// Fills adapters with their values. Collective over the context's communicator if these come from a
/// directory.
void make_adapters(JobContext& context, ShardArena& arena) {
  if (const auto& adapter = context.blueprint.adapter)
    return load_adapter(context.comm, *adapter, context.blueprint.model.manifest, arena,
                        context.config().load.chunk_bytes);
  const auto seed = static_cast<std::uint64_t>(context.config().lora.seed);
  const TensorValues values = [=](const TensorInfo& tensor, std::int64_t begin, std::int64_t count,
                                  float* out) { initial_values(tensor, 0, seed, begin, count, out); };
  fill_adapters(arena, context.blueprint.model.manifest, values);
}

Weights load_weights(JobContext& context) {
  const auto rank = static_cast<std::size_t>(context.sets.own().rank());
  const std::int64_t arena_bytes = has_memory_of_gpu(context.plan.machine.device)
                                       ? 0
                                       : context.blueprint.shard_bytes(context.plan.shards)[rank];
  const auto limit = limit_memory(context, arena_bytes);
  const std::vector<int> left_in_files = units_left_in_files(context);
  const PlannedLoad planned = plan_load_of(context, left_in_files);
  Weights weights = allocate_weights(context, left_in_files);
  if (!left_in_files.empty())
    run_together(context.comm, [&] {
      weights.arena.read_from(std::make_unique<UnitsInFiles>(
          *weights.arena.stored(), context.blueprint.model.manifest, planned.index, planned.match,
          context.config().model.path, left_in_files, context.config().deadline.step_seconds));
    });
  weights.load = run_load(context, planned, &weights.arena);
  make_adapters(context, weights.arena);
  require_finite(context, weights.arena);
  return weights;
}

Weights draw_weights(JobContext& context) {
  const JobConfig& config = context.config();
  Weights weights = allocate_weights(context);
  initialize_shards(weights.arena, context.blueprint.model.manifest,
                    static_cast<float>(context.blueprint.model.config.initializer_range),
                    static_cast<std::uint64_t>(config.model.init_seed));
  make_adapters(context, weights.arena);
  return weights;
}

}  // namespace

Weights make_empty_weights(JobContext& context) {
  begin(context);
  return allocate_weights(context);
}

Weights make_weights(JobContext& context) {
  begin(context);
  return context.config().model.init == ModelInit::kRandom ? draw_weights(context) : load_weights(context);
}

LoadReport stream_weights(JobContext& context) {
  begin(context);
  const auto limit = limit_memory(context, 0);
  const PlannedLoad planned = plan_load_of(context);
  if (context.is_root()) console::line("sink      discard: no shard is kept");
  return run_load(context, planned, nullptr);
}

}  // namespace sluice
