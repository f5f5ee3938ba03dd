#include "shard/unit_gatherer.hpp"

#include "base/error.hpp"

#include <cstring>

namespace sluice {

UnitGatherer::UnitGatherer(Communicator& comm, const ShardArena& weights, const StagePlan& stages)
    : comm_(comm), weights_(weights) {
  if (comm.size() == 1) return;
  for (const std::int64_t elements : stages.slot_elements(weights.plan().layouts()))
    slots_.push_back(allocate(MemoryKind::kPrivate, elements * size_of(weights.dtype()), "gather buffer"));
}

std::vector<std::byte*> UnitGatherer::gather(const Stage& stage) {
  std::vector<std::byte*> units;
  std::vector<Work> works;
  for (std::size_t i = 0; i < stage.units.size(); ++i) {
    const int unit = stage.units[i];
    units.push_back(slots_.empty() ? weights_.unit_data(unit) : slots_[i].data());
    if (!slots_.empty()) works.push_back(start(unit, units.back()));
  }
  for (Work& work : works) work.wait();
  return units;
}

Work UnitGatherer::start(int unit, std::byte* out) {
  std::vector<std::int64_t> bytes = weights_.plan().counts(unit);
  for (std::int64_t& count : bytes) count *= size_of(weights_.dtype());
  return comm_.all_gather(weights_.unit_data(unit), out, bytes);
}

void UnitGatherer::release() {
#ifndef NDEBUG
  constexpr int kNanByte = 0xff;  // all bits set is a NaN in float32 and in bfloat16
  for (const MemoryBlock& slot : slots_)
    std::memset(slot.data(), kNanByte, static_cast<std::size_t>(slot.bytes()));
#endif
}

}  // namespace sluice
