#include "shard/unit_gatherer.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "device/copy.hpp"

#include <utility>

namespace sluice {
namespace {

/// Bytes that the rank holds of each stored unit, by unit; empty if no unit is stored.
std::vector<std::int64_t> held_bytes_of_stored(const ShardArena& weights) {
  std::vector<std::int64_t> bytes;
  if (weights.stored() == nullptr) return bytes;
  for (int unit = 0; unit < static_cast<int>(weights.plan().layouts().units.size()); ++unit)
    bytes.push_back(weights.stored()->held_bytes(unit));
  return bytes;
}

}  // namespace

UnitGatherer::UnitGatherer(const RankMesh& mesh, const ShardArena& weights, const StagePlan& stages)
    : UnitGatherer(mesh, weights,
                   stages.gather_bytes(weights.plan(), weights.rank(), size_of(weights.dtype()),
                                       held_bytes_of_stored(weights))) {}

UnitGatherer::UnitGatherer(const RankMesh& mesh, const ShardArena& weights, const GatherBytes& bytes)
    : mesh_(mesh),
      weights_(weights),
      dense_(weights.memory(), bytes.dense, "gather buffer"),
      experts_(weights.memory(), bytes.experts, "gather buffer of experts"),
      kept_(allocate(weights.memory(), bytes.kept, "kept weights")),
      has_begun_(weights.plan().layouts().units.size(), false),
      stream_(weights.memory()) {
  std::int64_t next = 0;
  for (int unit = 0; unit < static_cast<int>(has_begun_.size()); ++unit) {
    kept_offsets_.push_back(next);
    if (is_kept(unit)) next += held_bytes(unit);
  }
}

std::int64_t UnitGatherer::held_bytes(int unit) const {
  if (weights_.plan().is_stored(unit)) return weights_.stored()->held_bytes(unit);
  return weights_.plan().gathered_range(unit, weights_.rank()).count() * size_of(weights_.dtype());
}

std::int64_t UnitGatherer::gathered_bytes(const Stage& stage, bool experts) const {
  std::int64_t bytes = 0;
  for (const int unit : stage.units)
    if (is_gathered(unit) && !is_kept(unit) && weights_.plan().has_experts(unit) == experts)
      bytes += held_bytes(unit);
  return bytes;
}

std::byte* UnitGatherer::own(int unit) const {
  return weights_.plan().is_stored(unit) ? weights_.stored_data(unit) : weights_.unit_data(unit);
}

void UnitGatherer::begin(const Stage& stage) {
  SLUICE_ASSERT(next_.stage == nullptr, "a stage is already being gathered ahead");
  next_ = {&stage, take_dense(stage), {}, {}};
  std::byte* place = next_.dense.data();
  for (const int unit : stage.units) {
    if (!is_gathered(unit) || weights_.plan().has_experts(unit)) continue;
    if (is_kept(unit)) {
      begin_kept(unit);
      continue;
    }
    next_.works.push_back(start(unit, place));
    place += held_bytes(unit);
  }
}

std::vector<std::byte*> UnitGatherer::gather(const Stage& stage) {
  if (next_.stage == nullptr) begin(stage);
  SLUICE_ASSERT(next_.stage == &stage, "the stage that was gathered ahead is another one");
  current_ = std::exchange(next_, {});
  std::vector<std::byte*> units;
  std::byte* place = current_.dense.data();
  current_.experts = experts_.take(gathered_bytes(stage, /*experts=*/true));
  std::byte* experts = current_.experts.data();
  for (const int unit : stage.units) {
    if (!is_gathered(unit)) {
      units.push_back(own(unit));
    } else if (is_kept(unit)) {
      units.push_back(kept_place(unit));
    } else if (weights_.plan().has_experts(unit)) {
      units.push_back(experts);
      current_.works.push_back(start(unit, experts));
      experts += held_bytes(unit);
    } else {
      units.push_back(place);
      place += held_bytes(unit);
    }
  }
  for (Work& work : current_.works) work.make_stream_wait(kComputeStream);
  return units;
}

/// Begins to gather a unit that is kept, unless that was done.
void UnitGatherer::begin_kept(int unit) {
  const auto at = static_cast<std::size_t>(unit);
  if (has_begun_[at]) return;
  next_.works.push_back(start(unit, kept_place(unit)));
  has_begun_[at] = true;
}

std::vector<std::byte*> UnitGatherer::gather_rows(const Stage& stage, const RowExchange& rows) {
  SLUICE_ASSERT(next_.stage == nullptr, "the stage that was gathered ahead is another one");
  current_ = {&stage, take_dense(stage), {}, {}};
  std::byte* const table = current_.dense.data();
  const std::int64_t row_bytes = rows.width() * size_of(weights_.dtype());
  std::vector<std::byte> arrived(rows.rows().size() * static_cast<std::size_t>(row_bytes));
  rows.fetch(weights_.unit_data(stage.units.front()), arrived.data(), size_of(weights_.dtype()));
  std::vector<CopiedRange> copies;
  const std::byte* from = arrived.data();
  for (const std::int64_t row : rows.rows()) {
    copies.push_back({table + row * row_bytes, from, row_bytes});
    from += row_bytes;
  }
  copy_ranges(copies);
  return {table};
}

std::span<std::byte> UnitGatherer::take_dense(const Stage& stage) {
  return dense_.take(gathered_bytes(stage, /*experts=*/false));
}

Work UnitGatherer::start(int unit, std::byte* out) {
  const std::vector<std::int64_t> bytes =
      weights_.plan().is_stored(unit)
          ? weights_.stored()->counts(unit)
          : times(weights_.plan().counts(unit, weights_.rank()), size_of(weights_.dtype()));
  return mesh_.sharers(weights_.plan(), unit).all_gather(own(unit), out, bytes, stream_.after_compute());
}

void UnitGatherer::drop_next() {
  Gathering next = std::exchange(next_, {});
  for (Work& work : next.works) work.wait();
  dense_.give_back(next.dense);
}

void UnitGatherer::release() {
  const Gathering gathered = std::exchange(current_, {});
  dense_.give_back(gathered.dense);
  experts_.give_back(gathered.experts);
}

}  // namespace sluice
