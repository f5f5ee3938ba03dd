#include "load/streaming_loader.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"
#include "base/memory/growth_sampler.hpp"
#include "comm/gather_rows.hpp"
#include "comm/position.hpp"
#include "load/load_receiver.hpp"
#include "load/load_sender.hpp"

#include <optional>

namespace sluice {
namespace {

/// The loop over chunks that both sides share. `after` is called with the number of completed steps.
template <class Side, class After>
void run(Side side, int rank, GrowthSampler& growth, RankLoad& row, After after) {
  row.peak_staging_bytes = side.staging_bytes();
  for (std::size_t i = 0; i < side.steps(); ++i) {
    position::begin("chunk", static_cast<std::int64_t>(i));
    fault_point("load.chunk", rank);
    side.step(i);
    growth.tick();
    after(i);
  }
  side.finish();
  row.overhead_bytes = side.overhead_bytes();
  growth.sample();  // sampled while the ring is still allocated
}

/// Bytes of the plan's files in the page cache; -1 if the kernel does not report them for one of the files.
std::int64_t cached_bytes_of(const LoadPlan& plan, const std::filesystem::path& directory) {
  std::int64_t sum = 0;
  for (const CheckpointFile& file : plan.files()) {
    const std::optional<std::int64_t> bytes = InputFile::open(directory / file.name).cached_bytes();
    if (!bytes) return -1;
    sum += *bytes;
  }
  return sum;
}

void check_arguments(const LoadSetting& setting) {
  const LoadPlan& plan = setting.plan;
  SLUICE_ASSERT(setting.comm().size() == plan.shards().world(), "a load plan for {} ranks is run by {} ranks",
                plan.shards().world(), setting.comm().size());
  SLUICE_ASSERT(plan.discards() == (setting.arena == nullptr), "a plan that discards has no arena");
  const ShardArena* arena = setting.arena;
  SLUICE_ASSERT(
      arena == nullptr || (arena->rank() == setting.rank() && arena->dtype() == plan.arena_dtype() &&
                           &arena->plan() == &plan.shards()),
      "the arena is not the one that the load plan was made for");
  SLUICE_ASSERT(setting.options.ring_slots >= 1, "a ring cannot have {} slots", setting.options.ring_slots);
}

/// Reports progress of the load, extrapolated from rank 0 to all readers, which read about the same amount
/// each.
void report_progress(const LoadSetting& setting, std::int64_t own_bytes, double seconds) {
  if (!setting.options.progress) return;
  const std::int64_t all = setting.plan.read_bytes();
  const auto mine = static_cast<double>(setting.plan.read_bytes(setting.rank()));
  const auto done =
      static_cast<std::int64_t>(static_cast<double>(own_bytes) / mine * static_cast<double>(all));
  setting.options.progress({done, all, seconds});
}

void log_role(const LoadSetting& setting) {
  const ReaderAssignment& readers = setting.plan.readers();
  const int rank = setting.rank();
  const int reader = readers.reader_of(rank);
  if (!setting.is_read_in_set())
    log::debug("load      receives its shard from its counterpart in the set before");
  else if (readers.is_reader(rank))
    log::debug("load      reads {} in {} chunks, up to {} ahead with {} threads",
               format_bytes(setting.plan.read_bytes(rank)), setting.plan.chunks_of(rank).size(),
               setting.options.ring_slots, setting.options.reader_threads);
  else
    log::debug("load      receives its shard from rank {}, in parts of {} chunks", reader,
               setting.plan.chunks_of(reader).size());
}

void log_result(const RankLoad& row) {
  log::debug("load      {:.2f} s: read {}, received {}, sent {}; staging {}, memory grew by {} at most",
             row.seconds, format_bytes(row.read_bytes + row.overhead_bytes), format_bytes(row.received_bytes),
             format_bytes(row.sent_bytes), format_bytes(row.peak_staging_bytes),
             format_bytes(row.peak_growth_bytes));
}

}  // namespace

LoadReport load_shards(const RankSets& sets, const LoadPlan& plan, const std::filesystem::path& directory,
                       ShardArena* weights, const LoadOptions& options) {
  const LoadSetting setting{sets, plan, weights, directory, options};
  check_arguments(setting);
  log_role(setting);
  const Stopwatch watch;
  const Traffic before = sets.traffic();
  const int rank = sets.all().rank();
  GrowthSampler growth(options.baseline);
  RankLoad row;
  row.shard_bytes = weights == nullptr ? 0 : weights->bytes();
  if (setting.reads()) {
    const std::span<const Chunk> chunks = plan.chunks_of(setting.rank());
    run(LoadSender(setting), rank, growth, row, [&](std::size_t i) {
      row.read_bytes += chunks[i].bytes + chunks[i].scale_bytes;
      if (rank == 0) report_progress(setting, row.read_bytes, watch.seconds());
    });
  } else {
    run(LoadReceiver(setting), rank, growth, row, [](std::size_t) {});
  }
  row.seconds = watch.seconds();
  if (setting.reads()) row.page_cache_bytes = cached_bytes_of(plan, directory);
  row.available_bytes = available_memory_bytes();
  row.peak_growth_bytes = growth.peak_bytes();
  row.peak_pool_bytes = growth.peak_pool_bytes();
  row.received_bytes = sets.traffic().received_bytes - before.received_bytes;
  row.sent_bytes = sets.traffic().sent_bytes - before.sent_bytes;
  log_result(row);
  return {gather_rows(sets.all(), row)};
}

}  // namespace sluice
