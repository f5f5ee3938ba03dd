#include "decoder/stored/expert_room.hpp"

#include "base/error.hpp"
#include "decoder/stored/dequantise_rows.hpp"
#include "ops/runtime/tensor_device.hpp"

namespace sluice {
namespace {

const FlatLayout& layout_of(const ShardPlan& plan, int unit) {
  return plan.layouts().units[static_cast<std::size_t>(unit)];
}

}  // namespace

ExpertRoom::ExpertRoom(const StoredLayout& layout, DType dtype, MemoryKind memory)
    : layout_(layout),
      dtype_(dtype),
      block_(allocate(memory, largest_stored_expert(layout.plan(), layout.rank()) * size_of(dtype),
                      "the numbers of a dequantised expert")) {}

std::byte* ExpertRoom::numbers(int unit, int placement, std::int64_t expert, const std::byte* bytes) {
  SLUICE_ASSERT(bytes != nullptr, "unit {} is not bound", unit);
  const FlatLayout& layout = layout_of(layout_.plan(), unit);
  const Placement& place = layout.placements()[static_cast<std::size_t>(placement)];
  if (unit != unit_ || expert != expert_) {
    unit_ = unit;
    expert_ = expert;
    is_there_.assign(layout.placements().size(), false);
  }
  std::byte* const out = block_.data() + place.offset * size_of(dtype_);
  if (is_there_[static_cast<std::size_t>(placement)]) return out;
  dequantise_rows(layout_, unit, place, begin_of(unit, placement, expert), bytes, dtype_, out);
  is_there_[static_cast<std::size_t>(placement)] = true;
  return out;
}

void ExpertRoom::write(int unit, int placement, std::int64_t expert, Range elements, const std::byte* bytes,
                       std::byte* out) const {
  SLUICE_ASSERT(bytes != nullptr, "unit {} is not bound", unit);
  const std::int64_t begin = begin_of(unit, placement, expert);
  layout_.dequantise(unit, {begin + elements.begin, begin + elements.end}, {bytes, 0}, dtype_, out);
}

std::int64_t ExpertRoom::begin_of(int unit, int placement, std::int64_t expert) const {
  const FlatLayout& layout = layout_of(layout_.plan(), unit);
  return layout_.plan().gathered_range(unit, layout_.rank()).begin + layout.expert_begin(expert) +
         layout.placements()[static_cast<std::size_t>(placement)].offset;
}

at::Tensor StoredExperts::matrix(std::int64_t expert) {
  return ops::tensor_over(room_.numbers(unit_, placement_, expert, bytes_), {out_, in_},
                          ops::scalar_type(room_.dtype()));
}

void StoredExperts::write_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, void* out) const {
  room_.write(unit_, placement_, expert, {begin * in_, end * in_}, bytes_, static_cast<std::byte*>(out));
}

}  // namespace sluice
