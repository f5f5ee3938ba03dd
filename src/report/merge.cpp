#include "report/merge.hpp"

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "metrics/row_table.hpp"
#include "metrics/schema.hpp"
#include "metrics/segments.hpp"
#include "report/joined_metrics.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

/// Creates a column of the new file with a row for each step.
hdf5::Dataset create_column(const Column& column, std::int64_t rows, hdf5::File& output) {
  Shape shape = column.row_shape;
  shape.insert(shape.begin(), rows);
  hdf5::Dataset dataset = output.create_dataset(column.path, column.dtype, shape);
  describe(output, column);
  return dataset;
}

void write_steps(const JoinedMetrics& metrics, hdf5::File& output) {
  const hdf5::File& last = metrics.last_file();
  const Column column{kStepDataset, DType::kInt64, last.text_attribute(kStepDataset, "units"),
                      last.text_attribute(kStepDataset, "description")};
  create_column(column, metrics.rows(), output).write<std::int64_t>(metrics.steps());
}

/// Integers of a column's numbers; -1 in place of NaN.
std::vector<std::int64_t> integers_of(const std::vector<double>& values) {
  std::vector<std::int64_t> integers(values.size());
  std::ranges::transform(values, integers.begin(), [](double value) {
    return std::isnan(value) ? -1 : static_cast<std::int64_t>(value);
  });
  return integers;
}

void write_column(const JoinedMetrics& metrics, const JoinedColumn& joined, hdf5::File& output) {
  const Column column{"/" + joined.name, joined.is_integer ? DType::kInt64 : DType::kFloat64, joined.units,
                      metrics.description(joined), joined.shape};
  hdf5::Dataset target = create_column(column, metrics.rows(), output);
  metrics.for_pieces(joined, [&](std::int64_t first, std::int64_t count, const std::vector<double>& values) {
    hdf5::Hyperslab box{Shape(joined.shape.size() + 1, 0), joined.shape};
    box.begin[0] = first;
    box.count.insert(box.count.begin(), count);
    if (joined.is_integer) return target.write<std::int64_t>(box, integers_of(values));
    target.write<double>(box, values);
  });
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

MergeReport merge_metrics(std::span<const fs::path> segments, const fs::path& output) {
  const JoinedMetrics metrics(segments);
  if (metrics.rows() == 0)
    fail({ExitCode::kBadData, "metrics.file"}, "{}: there are no rows of steps yet",
         segments.front().string());
  fs::path unfinished = output;
  unfinished += ".unfinished";
  std::error_code error;
  if (fs::exists(output, error))
    fail({ExitCode::kIo, "io.exists"}, "cannot create {}: it exists already", output.string());
  fs::remove(unfinished, error);
  hdf5::File file = hdf5::File::create(unfinished, output.string());
  copy_attributes(metrics.last_file(), segments, metrics.rows(), file);
  write_steps(metrics, file);
  for (const JoinedColumn& column : metrics.columns()) write_column(metrics, column, file);
  for (const FormerName& former : former_names())
    if (file.exists(former.target)) file.create_link(former.path, former.target);
  copy_load(metrics.last_file(), file);
  file.close();
  fs::rename(unfinished, output, error);
  if (error)
    fail(write_failure(error.value()), "cannot rename {} to {}: {}", unfinished.string(), output.string(),
         error.message());
  return {metrics.rows(), metrics.replaced_rows()};
}

}  // namespace sluice
