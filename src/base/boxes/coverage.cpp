#include "base/boxes/coverage.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// Joins each element with the one before it if `join` returns true.
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
    add(b.place, Range{begin, begin + b.box.rows.count() * b.box.columns.count()});
  }
  boxes_.clear();
  sort_ranges();
  join_neighbours(ranges_, [&](PlacedRange& last, const PlacedRange& next) {
    if (last.place != next.place) return false;
    SLUICE_ASSERT(last.range.end <= next.range.begin, "{}: element {} of {} is written twice", what,
                  next.range.begin, name_of(next.place));
    return append(last.range, next.range);
  });
  std::vector<Covered> covered;
  for (const PlacedRange& r : std::exchange(ranges_, {})) covered.push_back({r.place, r.range});
  return covered;
}

void Coverage::sort_ranges() {
  std::ranges::sort(ranges_, {},
                    [](const PlacedRange& r) { return std::tuple(r.place, r.range.begin, -r.range.end); });
}

std::vector<Coverage::Fault> Coverage::faults(std::span<const Whole> places) {
  sort_ranges();
  std::vector<Fault> faults;
  auto at = ranges_.begin();
  for (const Whole& whole : places) {
    std::int64_t covered = 0;
    int covering = -1;
    const auto find_gap = [&](std::int64_t begin) {
      if (covered < begin)
        faults.push_back({.place = whole.place, .elements = {covered, begin}, .is_gap = true});
    };
    at = std::find_if(at, ranges_.end(), [&](const PlacedRange& r) { return r.place >= whole.place; });
    for (; at != ranges_.end() && at->place == whole.place; ++at) {
      find_gap(at->range.begin);
      if (at->range.begin < covered)
        faults.push_back({whole.place, common(at->range, {0, covered}), at->owner, covering});
      if (at->range.end <= covered) continue;
      covered = at->range.end;
      covering = at->owner;
    }
    find_gap(whole.count);
  }
  return faults;
}

}  // namespace sluice
