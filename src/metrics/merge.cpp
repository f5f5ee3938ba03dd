#include "metrics/merge.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "metrics/row_table.hpp"
#include "metrics/schema.hpp"
#include "metrics/segments.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

struct Segment {
  hdf5::File file;
  std::int64_t kept = 0;  ///< number of rows that are kept, from the first
};

/// Groups whose datasets have a row per step: those with a column "step", and those read beside it.
std::vector<std::string> row_datasets(const hdf5::File& file) {
  const std::string phases = "/train/phase_seconds";
  std::vector<std::string> paths;
  for (const std::string& group : {std::string("/train"), phases, std::string("/moe"), std::string("/memory"),
                                   std::string("/rewards"), std::string("/logps")}) {
    if (!file.exists(group)) continue;
    for (const std::string& name : file.children(group))
      if (const std::string path = fmt::format("{}/{}", group, name); path != phases && !is_former_name(path))
        paths.push_back(path);
  }
  return paths;
}

/// Columns of all segments together, each with the largest row shape.
std::vector<Column> columns_of(const std::vector<Segment>& segments) {
  std::vector<Column> columns;
  for (const Segment& segment : segments)
    for (const std::string& path : row_datasets(segment.file)) {
      const hdf5::Dataset dataset = segment.file.dataset(path);
      Shape shape = dataset.shape();
      if (shape.empty())
        fail({ExitCode::kBadData, "metrics.file"}, "{}: {} has no rows", segment.file.name(), path);
      shape.erase(shape.begin());
      const auto known = std::ranges::find(columns, path, &Column::path);
      if (known == columns.end()) {
        columns.push_back({path, dataset.is_integer() ? DType::kInt64 : DType::kFloat64,
                           segment.file.text_attribute(path, "units"),
                           segment.file.text_attribute(path, "description"), shape});
        continue;
      }
      if (known->row_shape.size() != shape.size())
        fail({ExitCode::kBadData, "metrics.file"}, "{}: {} has {} dimensions, and {} in an earlier segment",
             segment.file.name(), path, shape.size() + 1, known->row_shape.size() + 1);
      std::ranges::transform(shape, known->row_shape, known->row_shape.begin(),
                             [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
  return columns;
}

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

hdf5::Hyperslab rows_box(std::int64_t first, std::int64_t count, const Shape& row) {
  hdf5::Hyperslab box{Shape(row.size() + 1, 0), row};
  box.begin[0] = first;
  box.count.insert(box.count.begin(), count);
  return box;
}

template <class T>
T missing_value() {
  if constexpr (std::is_integral_v<T>) return -1;
  return std::numeric_limits<T>::quiet_NaN();
}

/// Copies one column of one segment to rows [`first`, ...) of the new file.
template <class T>
void copy_rows(const Segment& segment, const Column& column, hdf5::Dataset& target, std::int64_t first) {
  const std::int64_t piece =
      std::max<std::int64_t>(1, 4 * kMiB / (8 * std::max<std::int64_t>(1, elements(column.row_shape))));
  const bool is_there = segment.file.exists(column.path);
  for (std::int64_t row = 0; row < segment.kept; row += piece) {
    const std::int64_t count = std::min(piece, segment.kept - row);
    std::vector<T> values(static_cast<std::size_t>(count * elements(column.row_shape)), missing_value<T>());
    const hdf5::Hyperslab all = rows_box(first + row, count, column.row_shape);
    if (!is_there) {
      target.write(all, std::span<const T>(values));
      continue;
    }
    const hdf5::Dataset source = segment.file.dataset(column.path);
    Shape shape = source.shape();
    shape.erase(shape.begin());
    if (shape != column.row_shape) target.write(all, std::span<const T>(values));
    values.resize(static_cast<std::size_t>(count * elements(shape)));
    source.read(rows_box(row, count, shape), std::span<T>(values));
    target.write(rows_box(first + row, count, shape), std::span<const T>(values));
  }
}

void copy_column(const std::vector<Segment>& segments, const Column& column, std::int64_t rows,
                 hdf5::File& output) {
  Shape shape = column.row_shape;
  shape.insert(shape.begin(), rows);
  hdf5::Dataset target = output.create_dataset(column.path, column.dtype, shape);
  describe(output, column);
  std::int64_t first = 0;
  for (const Segment& segment : segments) {
    if (column.dtype == DType::kInt64)
      copy_rows<std::int64_t>(segment, column, target, first);
    else
      copy_rows<double>(segment, column, target, first);
    first += segment.kept;
  }
}

void copy_load(const hdf5::File& last, hdf5::File& output) {
  for (const LoadColumn& load : load_columns()) {
    const Column& column = load.column;
    if (!last.exists(column.path)) continue;
    const hdf5::Dataset source = last.dataset(column.path);
    hdf5::Dataset target = output.create_dataset(column.path, column.dtype, source.shape());
    if (column.dtype == DType::kInt64)
      target.write<std::int64_t>(source.read<std::int64_t>());
    else
      target.write<double>(source.read<double>());
    describe(output, column);
  }
}

void copy_attributes(const hdf5::File& last, std::span<const fs::path> segments, std::int64_t rows,
                     hdf5::File& output) {
  for (const char* name :
       {"program", "version", "git_revision", "job_toml", "structure_hash", "created", "host"})
    output.set_attribute("/", name, last.text_attribute("/", name));
  for (const char* name : {"format_version", "world_size"})
    output.set_attribute("/", name, last.attribute<std::int64_t>("/", name).front());
  std::vector<std::string> names;
  for (const fs::path& segment : segments) names.push_back(segment.filename().string());
  output.set_attribute("/", "segments", fmt::format("{}", fmt::join(names, "\n")));
  output.set_attribute("/", "rows", rows);
}

}  // namespace

MergeReport merge_metrics(std::span<const fs::path> paths, const fs::path& output) {
  std::vector<Segment> segments;
  std::vector<std::vector<std::int64_t>> steps;
  for (const fs::path& path : paths) {
    segments.push_back({hdf5::File::open(path)});
    steps.push_back(read_steps(segments.back().file));
  }
  const std::vector<std::int64_t> kept = rows_that_hold(steps);
  MergeReport report;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    segments[i].kept = kept[i];
    report.rows += kept[i];
    report.replaced_rows += std::ssize(steps[i]) - kept[i];
  }
  if (report.rows == 0)
    fail({ExitCode::kBadData, "metrics.file"}, "{}: there are no rows of steps yet", paths.front().string());
  fs::path unfinished = output;
  unfinished += ".unfinished";
  std::error_code error;
  if (fs::exists(output, error))
    fail({ExitCode::kIo, "io.exists"}, "cannot create {}: it exists already", output.string());
  fs::remove(unfinished, error);
  hdf5::File file = hdf5::File::create(unfinished, output.string());
  copy_attributes(segments.back().file, paths, report.rows, file);
  for (const Column& column : columns_of(segments)) copy_column(segments, column, report.rows, file);
  for (const FormerName& former : former_names())
    if (file.exists(former.target)) file.create_link(former.path, former.target);
  copy_load(segments.back().file, file);
  file.close();
  fs::rename(unfinished, output, error);
  if (error)
    fail(write_failure(error.value()), "cannot rename {} to {}: {}", unfinished.string(), output.string(),
         error.message());
  return report;
}

}  // namespace sluice
