#include "metrics/metrics_writer.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kFormatVersion = 1;

/// A dataset's index of blocks is a tree whose root holds this many. Within it a new block is one entry more
/// in one node; a second level would rewrite nodes that old rows hang on, and a kill in between could lose
/// them.
constexpr std::int64_t kMaxBlocks = 64;
constexpr std::int64_t kBlockBytes =
    64 * kKiB;  ///< blocks are larger only where 64 of them would not hold all rows

std::int64_t row_bytes(const StepColumn& column) {
  std::int64_t bytes = size_of(column.dtype);
  for (const std::int64_t size : column.row_shape) bytes *= size;
  return bytes;
}

std::int64_t block_rows_for(const StepColumn& column, std::int64_t rows) {
  const std::int64_t least = (rows + kMaxBlocks - 1) / kMaxBlocks;
  return std::clamp<std::int64_t>(std::max(least, kBlockBytes / row_bytes(column)), 1,
                                  std::max<std::int64_t>(rows, 1));
}

std::filesystem::path unfinished_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  return name += ".unfinished";
}

hdf5::File create_unfinished(const std::filesystem::path& path) {
  if (std::filesystem::exists(path))
    fail(ExitCode::kIo, "cannot create {}: it exists already", path.string());
  std::error_code ignored;
  std::filesystem::remove(unfinished_name(path),
                          ignored);  // left by a job that was killed while it made the file
  return hdf5::File::create(unfinished_name(path), path.string());
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

void write_root_attributes(hdf5::File& file, const MetricsHeader& header) {
  file.set_attribute("/", "format_version", kFormatVersion);
  file.set_attribute("/", "program", "sluice");
  file.set_attribute("/", "version", version());
  file.set_attribute("/", "git_revision", git_revision());
  file.set_attribute("/", "job_toml", header.job_toml);
  file.set_attribute("/", "structure_hash", header.structure_hash);
  file.set_attribute("/", "world_size", std::int64_t{header.world_size});
  file.set_attribute("/", "created", utc_now());
  file.set_attribute("/", "host", host_name());
}

template <class Column>
void describe(hdf5::File& file, const Column& column) {
  file.set_attribute(column.path, "units", column.units);
  file.set_attribute(column.path, "description", column.description);
}

void write_values(hdf5::Dataset& dataset, const hdf5::Box& box, const MetricValues& values) {
  std::visit([&](const auto& list) { dataset.write(box, std::span(list)); }, values);
}

MetricValues unknown_values(DType dtype, int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  if (dtype == DType::kInt64) return std::vector<std::int64_t>(size, -1);
  return std::vector<double>(size, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, const MetricsHeader& header)
    : file_(create_unfinished(path)), expected_rows_(header.expected_rows) {
  write_root_attributes(file_, header);
  create_step_datasets(header);
  create_load_datasets(header.world_size);
  file_.flush();
  std::error_code error;
  std::filesystem::rename(unfinished_name(path), path, error);
  if (error)
    fail(ExitCode::kIo, "cannot rename {} to {}: {}", unfinished_name(path).string(), path.string(),
         error.message());
}

void MetricsWriter::create_step_datasets(const MetricsHeader& header) {
  for (StepColumn& column : step_columns(header)) {
    std::vector<std::int64_t> shape = column.row_shape;
    shape.insert(shape.begin(), 0);
    const std::int64_t block_rows = block_rows_for(column, expected_rows_);
    hdf5::Dataset dataset =
        file_.create_dataset(column.path, column.dtype, shape, {.block_rows = block_rows});
    describe(file_, column);
    step_datasets_.push_back({std::move(column), block_rows, std::move(dataset)});
  }
}

void MetricsWriter::create_load_datasets(int world_size) {
  for (const LoadColumn& column : load_columns()) {
    load_datasets_.push_back(file_.create_dataset(column.path, column.dtype, {world_size}));
    write_values(load_datasets_.back(), {{0}, {world_size}}, unknown_values(column.dtype, world_size));
    describe(file_, column);
  }
}

void MetricsWriter::write_load(const LoadTable& table) {
  const std::vector<LoadColumn> columns = load_columns();
  for (std::size_t i = 0; i < columns.size(); ++i)
    write_values(load_datasets_[i], {{0}, load_datasets_[i].shape()}, columns[i].values(table));
  file_.flush();
}

void MetricsWriter::append(const TrainRow& row) {
  SLUICE_ASSERT(rows_ < expected_rows_, "{} was made for {} rows", file_.name(), expected_rows_);
  reserve_blocks();
  try {
    for (StepDataset& target : std::span(step_datasets_).first(step_datasets_.size() - 1))
      write_row(target, row);
    file_.flush();
    write_row(step_datasets_.back(), row);
    file_.flush();
  } catch (const Error&) {
    drop_unfinished_row();
    throw;
  }
  ++rows_;
}

/// Room for the blocks that the next row enters.
void MetricsWriter::reserve_blocks() {
  std::int64_t bytes = 0;
  for (const StepDataset& target : step_datasets_)
    if (rows_ % target.block_rows == 0) bytes += target.block_rows * row_bytes(target.column);
  if (bytes > 0) file_.reserve(bytes);
}

void MetricsWriter::write_row(StepDataset& target, const TrainRow& row) {
  std::vector<std::int64_t> begin(target.column.row_shape.size() + 1, 0);
  std::vector<std::int64_t> count = target.column.row_shape;
  begin[0] = rows_;
  count.insert(count.begin(), 1);
  target.dataset.set_rows(rows_ + 1);
  write_values(target.dataset, {std::move(begin), std::move(count)}, target.column.values(row));
}

/// A failed append() leaves columns of equal length, so that the next try or a reader finds whole rows.
void MetricsWriter::drop_unfinished_row() {
  for (StepDataset& target : step_datasets_) {
    try {
      target.dataset.set_rows(rows_);
    } catch (const Error& error) {
      log::warning("after a failed write: {}", error.what());
    }
  }
}

void MetricsWriter::close() {
  step_datasets_.clear();
  load_datasets_.clear();
  file_.close();
}

}  // namespace sluice
