#include "report/joined_metrics.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "metrics/schema.hpp"
#include "metrics/segments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace sluice {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr const char* kPhases = "/train/phase_seconds";

// Most elements of a row: a file may claim any size, and no row of ours is larger.
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;

/// Whether a text may be the name of a column; names are copied into table headers unchanged.
bool is_column_name(const std::string& name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

Shape row_shape_of(const hdf5::File& file, const std::string& path, const hdf5::Dataset& dataset,
                   std::int64_t rows) {
  Shape shape = dataset.shape();
  if (shape.empty() || shape[0] < rows || (!dataset.is_integer() && !dataset.is_floating()))
    fail({ExitCode::kBadData, "metrics.file"},
         "{}: {} has the shape {}; expected a row of numbers for each of {} steps", file.name(), path,
         shape_text(shape), rows);
  shape.erase(shape.begin());
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    elements = size > kMostElements ? size : elements * size;
    if (elements > kMostElements)
      fail({ExitCode::kBadData, "metrics.file"}, "{}: a row of {} has the shape {}, more than a run can have",
           file.name(), path, shape_text(shape));
  }
  return shape;
}

}  // namespace

std::int64_t JoinedColumn::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

JoinedMetrics::JoinedMetrics(std::span<const std::filesystem::path> segments) {
  std::vector<std::vector<std::int64_t>> steps;
  for (const std::filesystem::path& path : segments) {
    segments_.push_back({hdf5::File::open(path)});
    steps.push_back(read_steps(segments_.back().file));
  }
  const std::vector<std::int64_t> kept = rows_that_hold(steps);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    segments_[i].first = rows();
    segments_[i].kept = kept[i];
    steps_.insert(steps_.end(), steps[i].begin(), steps[i].begin() + kept[i]);
    replaced_rows_ += std::ssize(steps[i]) - kept[i];
  }
  find_columns();
}

void JoinedMetrics::find_columns() {
  for (const Segment& segment : segments_)
    for (const char* group : {"/train", kPhases, "/moe", "/memory", "/rewards", "/logps"})
      if (segment.kept > 0 && segment.file.exists(group)) add_columns(segment, group);
  std::ranges::sort(columns_, {}, &JoinedColumn::name);
}

void JoinedMetrics::add_columns(const Segment& segment, const std::string& group) {
  for (const std::string& name : segment.file.children(group)) {
    const std::string path = fmt::format("{}/{}", group, name);
    if (!is_column_name(name))
      fail({ExitCode::kBadData, "metrics.file"}, "{}: {} in {} is not the name of a column",
           segment.file.name(), printable(name), group);
    if (path == kPhases || path == kStepDataset || is_former_name(path)) continue;
    const hdf5::Dataset dataset = segment.file.dataset(path);
    Shape shape = row_shape_of(segment.file, path, dataset, segment.kept);
    const auto known = std::ranges::find(columns_, path.substr(1), &JoinedColumn::name);
    if (known == columns_.end()) {
      columns_.push_back({path.substr(1), std::move(shape), dataset.is_integer(),
                          segment.file.text_attribute(path, "units")});
      continue;
    }
    if (shape.size() == 1 && known->shape.size() == 1)
      known->shape[0] = std::max(known->shape[0], shape[0]);  // segments may have different numbers of ranks
    else if (shape != known->shape)
      fail({ExitCode::kBadData, "metrics.file"},
           "{}: a row of {} has the shape {}, and {} in an earlier segment", segment.file.name(), path,
           shape_text(shape), shape_text(known->shape));
  }
}

const JoinedColumn* JoinedMetrics::find(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &JoinedColumn::name);
  return found == columns_.end() ? nullptr : &*found;
}

const JoinedMetrics::Segment& JoinedMetrics::segment_of(std::int64_t row) const {
  const auto holds = [row](const Segment& segment) {
    return row >= segment.first && row < segment.first + segment.kept;
  };
  return *std::ranges::find_if(segments_, holds);
}

std::vector<double> JoinedMetrics::read(const JoinedColumn& column, std::int64_t first,
                                        std::int64_t count) const {
  SLUICE_ASSERT(first >= 0 && count >= 0 && first + count <= rows(), "rows {} + {} of {}", first, count,
                rows());
  const std::int64_t width = column.elements();
  std::vector<double> values(static_cast<std::size_t>(count * width),
                             std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t done = 0; done < count;) {
    const Segment& segment = segment_of(first + done);
    const std::int64_t row = first + done - segment.first;
    const std::int64_t part = std::min(count - done, segment.kept - row);
    read_part(segment, column, row, part,
              std::span(values).subspan(static_cast<std::size_t>(done * width),
                                        static_cast<std::size_t>(part * width)));
    done += part;
  }
  return values;
}

void JoinedMetrics::read_part(const Segment& segment, const JoinedColumn& column, std::int64_t row,
                              std::int64_t count, std::span<double> out) const {
  const std::string path = "/" + column.name;
  if (!segment.file.exists(path)) return;
  const hdf5::Dataset dataset = segment.file.dataset(path);
  hdf5::Hyperslab box{Shape(column.shape.size() + 1, 0), dataset.shape()};
  box.begin[0] = row;
  box.count[0] = count;
  const std::int64_t width = std::ssize(out) / count;
  const std::int64_t own = column.shape.size() == 1 ? box.count[1] : width;
  if (own == width) return dataset.read<double>(box, out);
  std::vector<double> narrow(static_cast<std::size_t>(count * own));
  dataset.read<double>(box, std::span(narrow));
  for (std::int64_t i = 0; i < count; ++i)
    std::copy_n(narrow.begin() + i * own, own, out.begin() + i * width);
}

std::int64_t JoinedMetrics::rows_of_piece(const JoinedColumn& column) {
  return std::max<std::int64_t>(1, 4 * kMiB / 8 / std::max<std::int64_t>(1, column.elements()));
}

std::string JoinedMetrics::description(const JoinedColumn& column) const {
  const std::string path = "/" + column.name;
  const auto has_column = [&](const Segment& segment) {
    return segment.kept > 0 && segment.file.exists(path);
  };
  return std::ranges::find_if(segments_, has_column)->file.text_attribute(path, "description");
}

std::string JoinedMetrics::text(const std::string& attribute) const try {
  if (segments_.empty()) return "";
  return segments_.back().file.text_attribute("/", attribute);
} catch (const Error&) {
  return "";
}

std::string JoinedMetrics::created(std::int64_t row) const try {
  return segment_of(row).file.text_attribute("/", "created");
} catch (const Error&) {
  return "";
}

std::vector<std::int64_t> JoinedMetrics::segment_starts() const {
  std::vector<std::int64_t> starts;
  for (const Segment& segment : segments_)
    if (segment.kept > 0) starts.push_back(segment.first);
  return starts;
}

}  // namespace sluice
