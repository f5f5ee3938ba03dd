#include "base/boxes/coverage.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// Joins each element with the one before where `join` does so and says true.
template <class T, class Join>
void join_neighbours(std::vector<T>& sorted, Join join) {
  std::size_t kept = 0;
  for (const T& next : sorted)
    if (kept == 0 || !join(sorted[kept - 1], next)) sorted[kept++] = next;
  sorted.resize(kept);
}

/// Appends `next` to `range` if they touch.
bool append(Range& range, Range next) {
  if (range.end != next.begin) return false;
  range.end = next.end;
  return true;
}

bool is_same(Range a, Range b) { return a.begin == b.begin && a.end == b.end; }

}  // namespace

void Coverage::join_below() {
  const auto matrix_and_columns = [](const PlacedBox& b) {
    return std::tuple(b.place, b.origin, b.width, b.box.columns.begin, b.box.columns.end);
  };
  std::ranges::sort(boxes_, {}, [&](const PlacedBox& b) {
    return std::tuple_cat(matrix_and_columns(b), std::tuple(b.box.rows.begin));
  });
  join_neighbours(boxes_, [&](PlacedBox& last, const PlacedBox& next) {
    return matrix_and_columns(last) == matrix_and_columns(next) && append(last.box.rows, next.box.rows);
  });
}

void Coverage::join_beside() {
  const auto matrix_and_rows = [](const PlacedBox& b) {
    return std::tuple(b.place, b.origin, b.width, b.box.rows.begin, b.box.rows.end);
  };
  std::ranges::sort(boxes_, {}, [&](const PlacedBox& b) {
    return std::tuple_cat(matrix_and_rows(b), std::tuple(b.box.columns.begin));
  });
  join_neighbours(boxes_, [&](PlacedBox& last, const PlacedBox& next) {
    return matrix_and_rows(last) == matrix_and_rows(next) && append(last.box.columns, next.box.columns);
  });
}

std::vector<Coverage::Covered> Coverage::joined(std::string_view what,
                                                const std::function<std::string(int place)>& name_of) {
  join_below();
  join_beside();
  for (const PlacedBox& b : boxes_) {
    const std::int64_t begin = b.origin + b.box.rows.begin * b.width + b.box.columns.begin;
    SLUICE_ASSERT(
        b.box.rows.count() == 1 || is_same(b.box.columns, {0, b.width}),
        "{}: {} rows of {} elements from element {} of {} on are not written whole, each element once", what,
        b.box.rows.count(), b.width, begin, name_of(b.place));
    ranges_.push_back({b.place, {begin, begin + b.box.rows.count() * b.box.columns.count()}});
  }
  boxes_.clear();
  std::ranges::sort(ranges_, {}, [](const Covered& c) { return std::tuple(c.place, c.range.begin); });
  join_neighbours(ranges_, [&](Covered& last, const Covered& next) {
    if (last.place != next.place) return false;
    SLUICE_ASSERT(last.range.end <= next.range.begin, "{}: element {} of {} is written twice", what,
                  next.range.begin, name_of(next.place));
    return append(last.range, next.range);
  });
  return std::exchange(ranges_, {});
}

}  // namespace sluice
