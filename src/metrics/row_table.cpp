#include "metrics/row_table.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/round.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace sluice {
namespace {

/// Most blocks of a dataset: the root of its index tree holds this many. Up to there a new block adds one
/// entry to one node; a second level would rewrite nodes on which old rows depend, and a kill in between
/// could lose them.
constexpr std::int64_t kMaxBlocks = 64;
constexpr std::int64_t kBlockBytes =
    64 * kKiB;  ///< least bytes of a block; larger only if 64 blocks would not hold all rows
/// Most bytes of a block that is filled with zeros, which takes memory and disk that most runs never need;
/// larger blocks are holes.
constexpr std::int64_t kMaxFilledBytes = kMiB;
/// Most bytes of a block; HDF5 takes less than 4 GiB. If 64 such blocks do not hold all rows, the index
/// grows.
constexpr std::int64_t kMaxBlockBytes = kGiB;

std::int64_t row_bytes(const Column& column) {
  std::int64_t bytes = size_of(column.dtype);
  for (const std::int64_t size : column.row_shape) bytes *= size;
  return bytes;
}

/// Storage of a column. Readers rely on the last column, in which unwritten numbers must read as zero, so it
/// has no holes.
hdf5::Storage storage_for(const Column& column, std::int64_t rows, bool is_last) {
  const std::int64_t most = (is_last ? kMaxFilledBytes : kMaxBlockBytes) / row_bytes(column);
  const std::int64_t wanted = std::max(divide_up(rows, kMaxBlocks), kBlockBytes / row_bytes(column));
  const std::int64_t block_rows = std::max<std::int64_t>(1, std::min({wanted, most, rows}));
  return {.block_rows = block_rows, .holes = !is_last && block_rows * row_bytes(column) > kMaxFilledBytes};
}

}  // namespace

void describe(hdf5::File& file, const Column& column) {
  file.set_attribute(column.path, "units", column.units);
  file.set_attribute(column.path, "description", column.description);
}

void write_values(hdf5::Dataset& dataset, const hdf5::Hyperslab& box, const MetricValues& values) {
  std::visit([&](const auto& list) { dataset.write(box, std::span(list)); }, values);
}

RowTable::RowTable(hdf5::File& file, std::vector<Column> columns, std::int64_t expected_rows)
    : expected_rows_(expected_rows) {
  for (Column& column : columns) {
    std::vector<std::int64_t> shape = column.row_shape;
    shape.insert(shape.begin(), 0);
    const hdf5::Storage storage = storage_for(column, expected_rows, &column == &columns.back());
    hdf5::Dataset dataset = file.create_dataset(column.path, column.dtype, shape, storage);
    describe(file, column);
    datasets_.push_back({std::move(column), storage, std::move(dataset)});
  }
}

void RowTable::append(hdf5::File& file, std::int64_t count, const std::vector<MetricValues>& values) {
  SLUICE_ASSERT(rows_ + count <= expected_rows_, "a row is appended to {}, which was created for {} rows",
                file.name(), expected_rows_);
  SLUICE_ASSERT(values.size() == datasets_.size(), "found {} values, expected one for each of {} columns",
                values.size(), datasets_.size());
  reserve_blocks(file, count);
  try {
    for (std::size_t i = 0; i + 1 < datasets_.size(); ++i) write_rows(datasets_[i], count, values[i]);
    file.flush();
    write_rows(datasets_.back(), count, values.back());
    file.flush();
  } catch (const Error&) {
    drop_unfinished_rows();
    throw;
  }
  rows_ += count;
}

/// Reserves room for the blocks that the next rows enter.
void RowTable::reserve_blocks(hdf5::File& file, std::int64_t count) {
  std::int64_t bytes = 0;
  for (const Growing& target : datasets_) {
    const auto blocks = [&](std::int64_t rows) { return divide_up(rows, target.storage.block_rows); };
    bytes += (blocks(rows_ + count) - blocks(rows_)) * target.storage.block_rows * row_bytes(target.column);
  }
  if (bytes > 0) file.reserve(bytes);
}

void RowTable::write_rows(Growing& target, std::int64_t count, const MetricValues& values) {
  std::vector<std::int64_t> begin(target.column.row_shape.size() + 1, 0);
  std::vector<std::int64_t> extent = target.column.row_shape;
  begin[0] = rows_;
  extent.insert(extent.begin(), count);
  if (target.dataset.shape()[0] < rows_ + count) target.dataset.set_rows(rows_ + count);
  write_values(target.dataset, {std::move(begin), std::move(extent)}, values);
}

/// A failed append() leaves columns of equal length, so that the next try or a reader finds whole rows. What
/// refuses that is what refused the rows, and was told then. A column that stays longer, as one with holes
/// does, because this would fill them, is overwritten by the next rows; readers go by the last column.
void RowTable::drop_unfinished_rows() noexcept {
  for (Growing& target : datasets_) {
    if (target.storage.holes && rows_ % target.storage.block_rows != 0) continue;
    try {
      target.dataset.set_rows(rows_);
    } catch (const Error& error) {
      log::debug("after a failed write: {}", error.what());
    }
  }
}

}  // namespace sluice
