#include "shard/stored/stored_layout.hpp"

#include "base/error.hpp"
#include "encoding/dequantise.hpp"
#include "encoding/quantise.hpp"

#include <algorithm>
#include <cstring>

namespace sluice {

StoredLayout::StoredLayout(const ShardPlan& plan, const StoredTensors& tensors, int rank,
                           std::span<const int> elsewhere)
    : plan_(plan), rank_(rank), encodings_(tensors.encodings), units_(plan.layouts().units.size()) {
  for (const StoredRange& range : tensors.ranges) add_runs(range);
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
    if (plan.is_stored(unit)) place(unit, std::ranges::binary_search(elsewhere, unit));
}

/// Cuts the range where one rank's shard ends, and adds the runs without places.
void StoredLayout::add_runs(const StoredRange& range) {
  const int unit = plan_.layouts().unit_of(range.tensor);
  const Range held = plan_.gathered_range(unit, rank_);
  plan_.owned_runs(
      range.tensor, {range.begin, range.begin + range.count}, [&](int rank, const ShardPlan::OwnedRun& run) {
        const std::int64_t begin = plan_.unit_element(rank, run.arena_begin).element;
        if (begin < held.begin || begin >= held.end) return;
        units_[static_cast<std::size_t>(unit)].runs.push_back({begin, run.count, range.encoding,
                                                               range.element + run.tensor_begin - range.begin,
                                                               range.tensor, run.tensor_begin, 0, 0});
      });
}

void StoredLayout::place(int number, bool is_elsewhere) {
  Unit& unit = units_[static_cast<std::size_t>(number)];
  std::ranges::sort(unit.runs, {}, &Run::begin);
  const Range owned = plan_.owned(number, rank_);
  auto next = unit.runs.begin();
  std::int64_t element = plan_.gathered_range(number, rank_).begin, bytes = 0;
  for (const std::int64_t count : plan_.counts(number, rank_)) {
    const std::int64_t first = bytes, end = element + count;
    for (; next != unit.runs.end() && next->begin < end; ++next) {
      const Encoding& encoding = encodings_[static_cast<std::size_t>(next->encoding)];
      next->codes = bytes;
      next->scales = bytes += encoding.code_bytes(next->count);
      bytes += encoding.scale_bytes(encoding.scales_of({next->element, next->element + next->count}));
    }
    unit.counts.push_back(bytes - first);
    if (element == owned.begin && end == owned.end) unit.own = {first, bytes};
    element = end;
  }
  unit.begin = is_elsewhere ? -1 : bytes_;
  if (!is_elsewhere) bytes_ += unit.own.count();
}

std::vector<StoredLayout::OwnRun> StoredLayout::own_runs(int unit) const {
  const Range own = plan_.owned(unit, rank_);
  std::vector<OwnRun> runs;
  for (const Run& run : at(unit).runs)
    if (run.begin >= own.begin && run.end() <= own.end)
      runs.push_back({run.tensor, run.tensor_begin, run.count,
                      &encodings_[static_cast<std::size_t>(run.encoding)], run.element,
                      run.codes - at(unit).own.begin, run.scales - at(unit).own.begin});
  return runs;
}

std::int64_t StoredLayout::held_bytes(int unit) const { return sum(at(unit).counts); }

template <class Visit>
void StoredLayout::for_each_common(int unit, Range elements, Visit visit) const {
  const std::vector<Run>& runs = at(unit).runs;
  std::int64_t done = elements.begin;
  for (auto run = std::ranges::upper_bound(runs, elements.begin, {}, &Run::end);
       run != runs.end() && run->begin < elements.end; ++run) {
    const Encoding& encoding = encodings_[static_cast<std::size_t>(run->encoding)];
    const Range here{std::max(elements.begin, run->begin), std::min(elements.end, run->end())};
    const Range encoded{run->element + here.begin - run->begin, run->element + here.end - run->begin};
    const std::int64_t first_scale = encoding.scales_of({run->element, run->element + run->count}).begin;
    visit(encoding,
          Common{here, encoded, run->codes + encoding.code_bytes(here.begin - run->begin),
                 run->scales + encoding.scale_bytes({first_scale, encoding.scales_of(encoded).begin})});
    SLUICE_ASSERT(here.begin == done, "this rank does not hold elements {} to {} of unit {}", done,
                  here.begin, unit);
    done = here.end;
  }
  SLUICE_ASSERT(done == elements.end, "this rank does not hold elements {} to {} of unit {}", done,
                elements.end, unit);
}

void StoredLayout::dequantise(int unit, Range elements, Bytes<const std::byte> bytes, DType to,
                              std::byte* out) const {
  for_each_common(unit, elements, [&](const Encoding& encoding, const Common& part) {
    sluice::dequantise(encoding, part.encoded, bytes.at(part.codes), bytes.at(part.scales), to,
                       out + (part.elements.begin - elements.begin) * size_of(to));
  });
}

std::vector<CodedRows> StoredLayout::coded_rows(int unit, Range elements, std::int64_t columns,
                                                Bytes<const std::byte> bytes) const {
  std::vector<CodedRows> rows;
  bool are_whole = true;
  for_each_common(unit, elements, [&](const Encoding& encoding, const Common& part) {
    const std::int64_t count = part.encoded.count();
    are_whole =
        are_whole && encoding.columns == columns && part.encoded.begin % columns == 0 && count % columns == 0;
    rows.push_back({&encoding, part.encoded.begin / columns, count / columns, bytes.at(part.codes),
                    bytes.at(part.scales)});
  });
  return are_whole ? rows : std::vector<CodedRows>();
}

StoredLayout::RowPlace StoredLayout::row_at(int unit, std::int64_t element) const {
  const std::vector<Run>& runs = at(unit).runs;
  const auto run = std::ranges::upper_bound(runs, element, {}, &Run::end);
  SLUICE_ASSERT(run != runs.end() && run->begin <= element, "this rank does not hold element {} of unit {}",
                element, unit);
  const std::int64_t columns = encodings_[static_cast<std::size_t>(run->encoding)].columns;
  const std::int64_t begin = element - (run->element + element - run->begin) % columns;
  return {{begin, begin + columns}, run->end()};
}

void StoredLayout::quantise(int unit, Range elements, const float* values, Bytes<std::byte> bytes) const {
  for_each_common(unit, elements, [&](const Encoding& encoding, const Common& part) {
    quantise_rows(encoding, part.elements.count() / encoding.columns,
                  values + (part.elements.begin - elements.begin), bytes.at(part.codes),
                  bytes.at(part.scales));
  });
}

void StoredLayout::store(int unit, Range elements, std::int64_t first_encoded, const Encoding& encoding,
                         const std::byte* codes, const std::byte* scales, Bytes<std::byte> bytes) const {
  const std::int64_t first_scale =
      encoding.scales_of({first_encoded, first_encoded + elements.count()}).begin;
  for_each_common(unit, elements, [&](const Encoding& own, const Common& part) {
    SLUICE_ASSERT(
        own == encoding && part.encoded.begin - first_encoded == part.elements.begin - elements.begin,
        "the codes belong to another matrix than the one in unit {} at element {}", unit,
        part.elements.begin);
    const Range needed = encoding.scales_of(part.encoded);
    std::memcpy(bytes.at(part.codes), codes + encoding.code_bytes(part.elements.begin - elements.begin),
                static_cast<std::size_t>(encoding.code_bytes(part.elements.count())));
    std::memcpy(bytes.at(part.scales), scales + encoding.scale_bytes({first_scale, needed.begin}),
                static_cast<std::size_t>(encoding.scale_bytes(needed)));
  });
}

}  // namespace sluice
