#include "decoder/stored/stored_room.hpp"

#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/buffers/shared_work.hpp"
#include "ops/runtime/tensor_device.hpp"

namespace sluice {
namespace {

const FlatLayout& layout_of(const ShardPlan& plan, int unit) {
  return plan.layouts().units[static_cast<std::size_t>(unit)];
}

/// Dequantises the block of a placement that begins at element `begin` of the unit's buffer, to `out`; threads
/// share its rows. `bytes`: all bytes that the rank holds of the unit.
void dequantise_rows(const StoredLayout& layout, int unit, const Placement& place, std::int64_t begin,
                     const std::byte* bytes, DType to, std::byte* out) {
  // The least elements for which another thread pays off.
  constexpr std::int64_t kLeast = std::int64_t{16} * 1024;
  const std::int64_t columns = place.row_elements;
  ops::share_work(place.block_elements / columns, divide_up(kLeast, columns),
                  [&](std::int64_t first, std::int64_t end) {
                    layout.dequantise(unit, {begin + first * columns, begin + end * columns}, {bytes, 0}, to,
                                      out + first * columns * size_of(to));
                  });
}

}  // namespace

StoredRoom::StoredRoom(const StoredLayout& layout, std::int64_t elements, DType dtype, MemoryKind memory,
                       const std::string& purpose)
    : layout_(layout), dtype_(dtype), block_(allocate(memory, elements * size_of(dtype), purpose)) {}

std::byte* StoredRoom::numbers(int unit, int placement, std::int64_t expert, const std::byte* bytes) {
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

std::int64_t StoredRoom::begin_of(int unit, int placement, std::int64_t expert) const {
  const FlatLayout& layout = layout_of(layout_.plan(), unit);
  return layout_.plan().gathered_range(unit, layout_.rank()).begin + layout.expert_begin(expert) +
         layout.placements()[static_cast<std::size_t>(placement)].offset;
}

at::Tensor StoredTensor::matrix(std::int64_t expert) {
  return ops::tensor_over(room_.numbers(unit_, placement_, expert, bytes_), {out_, in_},
                          ops::scalar_type(room_.dtype()));
}

void StoredTensor::write_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, void* out) const {
  room_.layout().dequantise(unit_, elements_of(expert, begin, end), {bytes_, 0}, room_.dtype(),
                            static_cast<std::byte*>(out));
}

std::vector<CodedRows> StoredTensor::coded_rows(std::int64_t expert) const {
  return room_.layout().coded_rows(unit_, elements_of(expert, 0, out_), in_, {bytes_, 0});
}

Range StoredTensor::elements_of(std::int64_t expert, std::int64_t begin, std::int64_t end) const {
  SLUICE_ASSERT(bytes_ != nullptr, "unit {} is not bound", unit_);
  const std::int64_t first = room_.begin_of(unit_, placement_, expert);
  return {first + begin * in_, first + end * in_};
}

}  // namespace sluice
