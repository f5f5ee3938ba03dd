#include "job/weights.hpp"

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "job/console.hpp"
#include "load/checkpoint_match.hpp"
#include "load/initial_values.hpp"
#include "load/load_plan.hpp"
#include "load/progress.hpp"
#include "load/streaming_loader.hpp"

#include <string>
#include <vector>

namespace sluice {
namespace {

void print_shards(const JobContext& context) {
  const ModelDescription& model = context.blueprint.model;
  const std::int64_t size = size_of(context.config().model.dtype);
  std::string shards;
  for (int rank = 0; rank < context.plan.world(); ++rank)
    shards += (rank ? ", " : "") + format_bytes(context.plan.arena_elements(rank) * size);
  console::line("model     {} with {:.3f} M parameters in {}, structure {}", model.config.model_type,
                static_cast<double>(model.manifest.parameter_count()) / 1e6,
                name_of(context.config().model.dtype), model.manifest.structure_hash().hex());
  console::line("shards    {}", shards);
}

/// Fails before the kernel would have to choose a victim.
void require_memory(const JobContext& context) {
  const std::int64_t needed =
      context.plan.arena_elements(context.comm.rank()) * size_of(context.config().model.dtype);
  const std::int64_t available = available_memory_bytes();
  if (needed > available)
    fail(ExitCode::kInternal,
         "rank {} needs {} for its shard, and its machine has {} available; use more ranks or machines",
         context.comm.rank(), format_bytes(needed), format_bytes(available));
}

CachePolicy cache_policy(PageCache setting) {
  switch (setting) {
    case PageCache::kKeep:
      return CachePolicy::kKeep;
    case PageCache::kDrop:
      return CachePolicy::kDrop;
    case PageCache::kAuto:
      break;
  }
  return CachePolicy::kAuto;
}

/// Every rank has made the plan by itself; a difference would send bytes to the wrong place.
void agree_on_plan(Communicator& comm, const LoadPlan& plan) {
  const std::vector<std::string> digests = comm.all_gather_text(plan.digest().hex());
  for (int rank = 0; rank < comm.size(); ++rank)
    SLUICE_ASSERT(digests[static_cast<std::size_t>(rank)] == digests.front(),
                  "rank {} made another load plan than rank 0", rank);
}

LoadPlan make_plan(JobContext& context) {
  const JobConfig& config = context.config();
  const CheckpointIndex index = share_checkpoint_index(context.comm, config.model.path);
  const CheckpointMatch match = match_checkpoint(index, context.blueprint.keys, config.model.dtype);
  if (context.is_root()) {
    for (const std::string& warning : index.warnings) log::warning("{}", warning);
    for (const std::string& text : ignored_text(match)) log::info("{}", text);
  }
  return {index, match, context.plan, config.model.dtype, config.load.chunk_bytes};
}

void print_load(const LoadReport& report) {
  std::vector<std::vector<std::string>> rows{
      {"load", "shard", "received", "sent", "read", "staging", "peak growth", "seconds"}};
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankLoad& r = report.ranks[rank];
    rows.push_back({fmt::format("rank {}", rank), format_mib(r.shard_bytes), format_mib(r.received_bytes),
                    format_mib(r.sent_bytes), format_mib(r.read_bytes), format_mib(r.peak_staging_bytes),
                    format_mib(r.peak_growth_bytes), fmt::format("{:.2f}", r.seconds)});
  }
  console::write_line(console::table(rows));
}

Weights load_checkpoint(JobContext& context) {
  const JobConfig& config = context.config();
  std::optional<DataGrowthLimit> limit;
  if (config.load.memory_limit_bytes > 0)
    limit.emplace(context.plan.arena_elements(context.comm.rank()) * size_of(config.model.dtype) +
                  config.load.memory_limit_bytes);
  const LoadPlan plan = make_plan(context);
  agree_on_plan(context.comm, plan);

  Weights weights{ShardArena(context.plan, context.comm.rank(), config.model.dtype, "weights"), std::nullopt};
  ProgressLine progress("load", console::is_terminal());
  LoadOptions options;
  options.page_cache = cache_policy(config.load.page_cache);
  options.baseline = context.baseline;
  options.progress = [&](const LoadProgress& p) {
    console::raw(progress.update(p.done_bytes, p.total_bytes, p.seconds));
  };
  weights.load = load_shards(context.comm, plan, config.model.path, weights.arena, options);
  if (context.is_root()) print_load(*weights.load);
  return weights;
}

Weights draw_weights(JobContext& context) {
  const JobConfig& config = context.config();
  Weights weights{ShardArena(context.plan, context.comm.rank(), config.model.dtype, "weights"), std::nullopt};
  initialize_shards(weights.arena, context.blueprint.model.manifest,
                    static_cast<float>(context.blueprint.model.config.initializer_range),
                    static_cast<std::uint64_t>(config.model.init_seed));
  return weights;
}

}  // namespace

Weights make_weights(JobContext& context) {
  const JobConfig& config = context.config();
  context.comm.set_deadline("load", config.deadline.load_seconds);
  context.directory.set_status("loading");
  if (context.is_root()) print_shards(context);
  require_memory(context);
  return config.model.init == ModelInit::kRandom ? draw_weights(context) : load_checkpoint(context);
}

}  // namespace sluice
