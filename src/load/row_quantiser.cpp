#include "load/row_quantiser.hpp"

#include "base/boxes/transpose.hpp"
#include "base/error.hpp"

#include <algorithm>

namespace sluice {

void RowQuantiser::add(const LoadMove& move, const std::byte* source) {
  if (!move.is_box()) return add(move.arena, move.count, source, move.dtype);
  const std::int64_t size = size_of(move.dtype);
  std::vector<std::byte> turned(static_cast<std::size_t>(move.count * size));
  transpose_elements({source, move.dtype, move.line_stride}, move.lines, move.length(),
                     {turned.data(), move.dtype, move.lines});
  for (std::int64_t row = 0; row < move.length(); ++row)
    add(move.arena + row * move.row_stride, move.lines, turned.data() + row * move.lines * size, move.dtype);
}

void RowQuantiser::add(std::int64_t place, std::int64_t count, const std::byte* values, DType type) {
  while (count > 0) {
    const auto [unit, element] = arena_.plan().unit_element(arena_.rank(), place);
    const auto [row, end] = arena_.stored()->row_at(unit, element);
    std::int64_t taken = std::min(count, row.end - element);
    if (taken == row.count()) {
      const std::int64_t most = std::max(row.count(), kAtOnce);
      taken = std::min({count, end - element, most}) / row.count() * row.count();
      draft_.resize(static_cast<std::size_t>(taken));
      convert_elements(values, type, draft_.data(), DType::kFloat32, taken);
      quantise(place, taken, draft_.data());
    } else {
      const std::int64_t column = element - row.begin;
      add_part(place - column, {column, column + taken}, row.count(), values, type);
    }
    place += taken;
    count -= taken;
    values += taken * size_of(type);
  }
}

void RowQuantiser::add_part(std::int64_t row_place, Range columns, std::int64_t row_elements,
                            const std::byte* values, DType type) {
  const auto [at, is_new] = open_.try_emplace(row_place);
  OpenRow& row = at->second;
  if (is_new) row = {std::vector<float>(static_cast<std::size_t>(row_elements)), row_elements};
  convert_elements(values, type, row.values.data() + columns.begin, DType::kFloat32, columns.count());
  row.missing -= columns.count();
  if (row.missing > 0) return;
  quantise(row_place, row_elements, row.values.data());
  open_.erase(at);
}

void RowQuantiser::quantise(std::int64_t place, std::int64_t count, const float* values) const {
  const auto [unit, first] = arena_.plan().unit_element(arena_.rank(), place);
  arena_.stored()->quantise(unit, {first, first + count}, values,
                            {arena_.stored_data(unit), arena_.stored()->own_bytes(unit).begin});
}

void RowQuantiser::finish() const {
  SLUICE_ASSERT(open_.empty(), "{} rows are incomplete at the end of the load", open_.size());
}

std::int64_t quantiser_bytes(const ShardPlan& shards, const LoadPlanOptions& options, int rank) {
  if (!options.quantises || options.discard) return 0;
  std::int64_t row = 0;
  for (const FlatLayout& unit : shards.layouts().units)
    if (unit.is_stored())
      for (const Placement& placement : unit.placements()) row = std::max(row, placement.row_elements);
  const std::int64_t size = size_of(DType::kFloat32), widened = std::max(row, RowQuantiser::kAtOnce) * size;
  if (!options.has_transposed) return widened + row * size;
  return widened + largest_stored_expert(shards, rank) * size + options.chunk_bytes;
}

}  // namespace sluice
