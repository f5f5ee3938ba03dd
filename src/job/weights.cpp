#include "job/weights.hpp"

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "comm/ranks_text.hpp"
#include "comm/run_together.hpp"
#include "job/console.hpp"
#include "job/progress_line.hpp"
#include "load/load_plan.hpp"
#include "load/streaming_loader.hpp"
#include "shard/initial_values.hpp"
#include "verify/verify_shards.hpp"
#include "weights/checkpoint_match.hpp"
#include "weights/copy_agreement.hpp"
#include "weights/tied_copies.hpp"

#include <algorithm>
#include <string>
#include <utility>
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

void begin(JobContext& context) {
  context.comm.set_deadline("load", context.config().deadline.load_seconds);
  context.directory.set_status("loading");
  if (context.is_root()) print_shards(context);
}

/// What a rank will hold at its peak, as far as the plans know it exactly: activations are an estimate.
std::int64_t certain_bytes(const RankMemory& memory) {
  return std::max(memory.load_total(), memory.compute_total() - memory.activations);
}

/// Fails before the kernel would have to choose a victim. The ranks of a node take from one pool.
void require_memory(const JobContext& context) {
  const std::vector<RankMemory> plans = context.memory_plan();
  const int node = context.nodes[static_cast<std::size_t>(context.comm.rank())];
  std::int64_t needed = 0;
  std::vector<int> neighbours;
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    if (context.nodes[rank] != node) continue;
    needed += certain_bytes(plans[rank]);
    neighbours.push_back(static_cast<int>(rank));
  }
  const bool unified = context.config().load.unified_memory;
  const std::int64_t available =
      available_memory_bytes(unified ? MemoryPool::kUnified : MemoryPool::kReclaimable);
  if (needed > available)
    fail(
        ExitCode::kTooLittle,
        "the machine of {} must hold {} at the peak, and has {} {}: {} too little. Use more machines, or see "
        "sluice plan for what takes the memory{}",
        ranks_text(std::move(neighbours)), format_bytes(needed), format_bytes(available),
        unified ? "free" : "available", format_bytes(needed - available),
        unified ? "; load.unified_memory counts the page cache as used: sysctl vm.drop_caches=1 empties it"
                : "");
}

ReaderAssignment assign_readers(const JobContext& context) {
  switch (context.config().load.readers) {
    case Readers::kNode:
      return ReaderAssignment::node(context.nodes);
    case Readers::kAll:
      return ReaderAssignment::all(context.comm.size());
    case Readers::kRank0:
      break;
  }
  return ReaderAssignment::rank0(context.comm.size());
}

CachePolicy cache_policy(const LoadSettings& load) {
  const bool leaves_none = load.page_cache == CachePolicy::kAuto && load.unified_memory;
  return leaves_none ? CachePolicy::kDrop : load.page_cache;
}

/// Every rank has made the plan by itself; a difference would send bytes to the wrong place.
void agree_on_plan(Communicator& comm, const LoadPlan& plan) {
  const std::vector<std::string> digests = comm.all_gather_text(plan.digest().hex());
  for (int rank = 0; rank < comm.size(); ++rank)
    SLUICE_ASSERT(digests[static_cast<std::size_t>(rank)] == digests.front(),
                  "rank {} made another load plan than rank 0", rank);
}

/// What the files hold and where it belongs; the same on every rank.
struct Source {
  CheckpointIndex index;
  CheckpointMatch match;
};

Source examine_checkpoint(JobContext& context) {
  const JobConfig& config = context.config();
  CheckpointIndex index = share_checkpoint_index(context.comm, config.model.path);
  CheckpointMatch match = match_checkpoint(index, context.blueprint.keys, config.model.dtype);
  run_together(context.comm, [&] {
    if (context.is_root()) require_tied_copies(index, context.blueprint.keys, config.model.path);
  });
  if (context.is_root()) {
    for (const std::string& warning : index.warnings) log::warning("{}", warning);
    for (const std::string& text : ignored_text(match)) log::info("{}", text);
  }
  give_back_free_heap();  // headers of many tensors are megabytes of JSON
  return {std::move(index), std::move(match)};
}

/// Collective. What is streamed by whom, agreed on before the first byte is.
LoadPlan make_plan(JobContext& context, const Source& source) {
  const JobConfig& config = context.config();
  LoadPlan plan(source.index, source.match, context.plan,
                {.arena = config.model.dtype,
                 .chunk_bytes = config.load.chunk_bytes,
                 .readers = assign_readers(context),
                 .discard = config.load.sink == LoadSink::kDiscard});
  agree_on_plan(context.comm, plan);
  agree_on_source(context.comm, source.index, config.model.path, plan.readers().readers());
  return plan;
}

void print_load(const LoadReport& report, bool unified_memory) {
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
  if (!unified_memory) return;
  const std::int64_t pool = std::ranges::max(report.ranks, {}, &RankLoad::peak_pool_bytes).peak_pool_bytes;
  console::line("  Page cache and all processes counted, the fullest machine had {} less of free memory.",
                format_mib(pool));
}

LoadReport run_plan(JobContext& context, const LoadPlan& plan, ShardArena* arena) {
  const JobConfig& config = context.config();
  ProgressLine progress("load", console::is_terminal());
  LoadOptions options;
  options.page_cache = cache_policy(config.load);
  options.limit_seconds = config.deadline.load_seconds;
  options.baseline = context.baseline;
  options.progress = [&](const LoadProgress& p) {
    console::raw(progress.update(p.done_bytes, p.total_bytes, p.seconds));
  };
  LoadReport report = load_shards(context.comm, plan, config.model.path, arena, options);
  if (context.is_root()) print_load(report, config.load.unified_memory);
  return report;
}

/// Memory that this rank may take from now on, if the job sets a limit.
std::optional<DataGrowthLimit> limit_memory(const JobContext& context, std::int64_t arena_bytes) {
  const std::int64_t extra = context.config().load.memory_limit_bytes;
  if (extra == 0) return std::nullopt;
  return std::optional<DataGrowthLimit>(std::in_place, arena_bytes + extra);
}

/// Reads the files once more and compares them with what has arrived.
void verify(JobContext& context, const LoadPlan& plan, const ShardArena& arena, const Source& source) {
  ProgressLine progress("verify", console::is_terminal());
  const Stopwatch watch;
  VerifyOptions options;
  options.readers = plan.readers().readers();
  if (context.is_root())
    options.progress = [&](std::int64_t done, std::int64_t total) {
      console::raw(progress.update(done, total, watch.seconds()));
    };
  const VerifyReport report =
      verify_shards(context.comm, arena, source.index, source.match, context.config().model.path, options);
  if (!context.is_root()) return;
  console::line("verified  {} tensors, {} read again, content {}", report.tensors,
                format_bytes(report.read_bytes), report.content.hex());
  if (report.non_finite > 0) log::warning("{} weights are infinite or NaN", report.non_finite);
}

Weights load_checkpoint(JobContext& context) {
  const DType dtype = context.config().model.dtype;
  const int rank = context.comm.rank();
  const auto limit = limit_memory(context, context.plan.arena_elements(rank) * size_of(dtype));
  const Source source = examine_checkpoint(context);
  const LoadPlan plan = make_plan(context, source);
  Weights weights{ShardArena(context.plan, rank, dtype, "weights"), std::nullopt};
  weights.load = run_plan(context, plan, &weights.arena);
  if (context.config().load.verify) verify(context, plan, weights.arena, source);
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
  begin(context);
  require_memory(context);
  context.comm.barrier();  // or one rank would find too little where another one has begun to take its part
  return context.config().model.init == ModelInit::kRandom ? draw_weights(context) : load_checkpoint(context);
}

LoadReport stream_weights(JobContext& context) {
  begin(context);
  const auto limit = limit_memory(context, 0);
  const LoadPlan plan = make_plan(context, examine_checkpoint(context));
  if (context.is_root()) console::line("sink      discard: no shard is kept");
  return run_plan(context, plan, nullptr);
}

}  // namespace sluice
