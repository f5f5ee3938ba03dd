#include "shard/unit_gatherer.hpp"

#include "base/counts.hpp"
#include "base/error.hpp"

#include <cstring>

namespace sluice {

UnitGatherer::UnitGatherer(const RankMesh& mesh, const ShardArena& weights, const StagePlan& stages)
    : mesh_(mesh), weights_(weights) {
  for (const std::int64_t elements : stages.slot_elements(weights.plan(), weights.rank()))
    slots_.push_back(allocate(MemoryKind::kPrivate, elements * size_of(weights.dtype()), "gather buffer"));
}

std::vector<std::byte*> UnitGatherer::gather(const Stage& stage) {
  std::vector<std::byte*> units;
  std::vector<Work> works;
  for (std::size_t i = 0; i < stage.units.size(); ++i) {
    const int unit = stage.units[i];
    const bool is_alone = weights_.plan().sharers(unit) == 1;
    units.push_back(is_alone ? weights_.unit_data(unit) : slots_[i].data());
    if (!is_alone) works.push_back(start(unit, units.back()));
  }
  for (Work& work : works) work.wait();
  return units;
}

Work UnitGatherer::start(int unit, std::byte* out) {
  const std::vector<std::int64_t> bytes =
      times(weights_.plan().counts(unit, weights_.rank()), size_of(weights_.dtype()));
  return mesh_.sharers(weights_.plan(), unit).all_gather(weights_.unit_data(unit), out, bytes);
}

void UnitGatherer::release() {
#ifndef NDEBUG
  constexpr int kNanByte = 0xff;  // all bits set is a NaN in float32 and in bfloat16
  for (const MemoryBlock& slot : slots_)
    if (slot.bytes() > 0) std::memset(slot.data(), kNanByte, static_cast<std::size_t>(slot.bytes()));
#endif
}

}  // namespace sluice
