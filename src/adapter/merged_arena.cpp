#include "adapter/merged_arena.hpp"

#include <algorithm>

namespace sluice {

MergedArena::MergedArena(const ShardArena& arena, const std::vector<StoredChange>& changes) : base_(arena) {
  for (const StoredChange& change : changes) changes_.push_back(&change);
  std::ranges::sort(changes_, {}, &StoredChange::place);
}

void MergedArena::read(std::int64_t begin, std::int64_t count, DType dtype, std::byte* out) const {
  const std::int64_t end = begin + count;
  auto next = std::ranges::upper_bound(changes_, begin, {}, &StoredChange::end);
  if (next == changes_.end() || (*next)->place >= end) return base_.read(begin, count, dtype, out);
  std::vector<float> values(static_cast<std::size_t>(count)), sums;
  base_.read(begin, count, DType::kFloat32, reinterpret_cast<std::byte*>(values.data()));
  for (; next != changes_.end() && (*next)->place < end; ++next) {
    const StoredChange& change = **next;
    const AdaptedWeight& adapted = change.adapted;
    const std::int64_t first_line = change.tensor_begin / adapted.in;
    for (std::int64_t place = std::max(begin, change.place); place < std::min(end, change.end());) {
      const std::int64_t element = change.tensor_begin + place - change.place;
      const std::int64_t line = element / adapted.in, column = element % adapted.in;
      const std::int64_t some = std::min({adapted.in - column, end - place, change.end() - place});
      add_adapter_to_row(adapted, change.b.data() + (line - first_line) * adapted.rank,
                         change.a.data() + column, some, values.data() + (place - begin), sums);
      place += some;
    }
  }
  std::vector<std::byte> rounded(static_cast<std::size_t>(count * size_of(base_.dtype())));
  convert_elements(values.data(), DType::kFloat32, rounded.data(), base_.dtype(), count);
  convert_elements(rounded.data(), base_.dtype(), out, dtype, count);
}

}  // namespace sluice
