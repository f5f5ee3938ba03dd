#include "base/error.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "report/column_names.hpp"
#include "report/event_file.hpp"
#include "report/expert_load.hpp"
#include "report/export_metrics.hpp"
#include "report/output_text.hpp"
#include "report/row_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iomanip>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSeconds = "train/step_seconds";

/// Seconds since 1970 of a time like "2026-11-21T15:04:05Z"; 0 for any other text.
double seconds_since_1970(const std::string& time) {
  std::tm parts{};
  std::istringstream in(time);
  in >> std::get_time(&parts, "%Y-%m-%dT%H:%M:%SZ");
  return in ? static_cast<double>(timegm(&parts)) : 0;
}

std::vector<std::string> tags_of(const JoinedColumn& column) {
  if (!is_expert_tokens(column)) return names_of_numbers(column);
  std::vector<std::string> tags;
  for (std::int64_t layer = 0; layer < column.shape[0]; ++layer)
    tags.push_back(fmt::format("moe/busiest_expert/{}", layer));
  return tags;
}

void add_scalars(const JoinedColumn& column, const std::vector<std::string>& tags,
                 std::span<const double> values, std::vector<EventScalar>& scalars) {
  const std::size_t each = tags.empty() ? 0 : values.size() / tags.size();
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const double value = each > 1 ? busiest_expert(values.subspan(i * each, each)) : values[i];
    // NaN in a column of single numbers is a result; in a list it means that a number was not measured.
    if (column.shape.empty() || !std::isnan(value)) scalars.push_back({tags[i], value});
  }
}

}  // namespace

/// Makes the records of rows one after the other, since their times add up.
class EventMaker {
 public:
  std::string head(const JoinedMetrics& metrics) {
    time_ = metrics.rows() > 0 ? seconds_since_1970(metrics.created(0)) : 0;
    return tf_record(event_file_version(time_));
  }

  /// Calls take(record) for each row from row `first` on.
  template <class Take>
  void make(const JoinedMetrics& metrics, std::int64_t first, Take take) {
    const std::vector<JoinedColumn>& columns = metrics.columns();
    std::vector<std::vector<std::string>> tags;
    for (const JoinedColumn& column : columns) tags.push_back(tags_of(column));
    const std::vector<std::int64_t> starts = metrics.segment_starts();
    RowReader rows(metrics);
    for (std::int64_t row = first; row < metrics.rows(); ++row) {
      if (std::ranges::binary_search(starts, row)) time_ = seconds_since_1970(metrics.created(row));
      std::vector<EventScalar> scalars;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const std::span<const double> values = rows.values(row, i);
        if (columns[i].name == kSeconds && columns[i].shape.empty() && std::isfinite(values.front()))
          time_ += values.front();
        add_scalars(columns[i], tags[i], values, scalars);
      }
      take(tf_record(event_of_step(time_, metrics.steps()[static_cast<std::size_t>(row)], scalars)));
    }
  }

 private:
  double time_ = 0;  ///< time of the last row, in seconds since 1970
};

namespace {

/// Path of the event file, whose directory is created. The name is fixed, because TensorBoard would join a
/// second file of a run to the first.
fs::path event_file_in(const fs::path& directory) {
  make_directories(directory);
  return directory / "events.out.tfevents.0000000000.sluice";
}

}  // namespace

fs::path export_events(const JoinedMetrics& metrics, const fs::path& directory) {
  const fs::path file = event_file_in(directory);
  OutputText out(file);
  EventMaker maker;
  out.write(maker.head(metrics));
  maker.make(metrics, 0, [&](const std::string& record) { out.write(record); });
  out.close();
  return file;
}

struct GrowingEvents::File {
  explicit File(const fs::path& place) : out(OutputFile::create(place)) {}
  void write(const std::string& text) {
    out.write_at(bytes, std::as_bytes(std::span(text)));
    bytes += std::ssize(text);
  }
  OutputFile out;
  std::int64_t bytes = 0;
  EventMaker maker;
};

GrowingEvents::GrowingEvents(const fs::path& directory) : path_(event_file_in(directory)) {
  std::error_code error;
  fs::remove(path_, error);  // if it cannot be removed, create() tells why
  file_ = std::make_unique<File>(path_);
}

GrowingEvents::~GrowingEvents() = default;

void GrowingEvents::add_new(const JoinedMetrics& metrics) {
  if (metrics.rows() == 0) return;
  EventMaker maker = file_->maker;
  std::string text = file_->bytes == 0 ? maker.head(metrics) : "";
  const auto [own, other] = std::ranges::mismatch(steps_, metrics.steps());
  const std::int64_t first = own - steps_.begin();
  maker.make(metrics, first, [&](const std::string& record) { text += record; });
  file_->write(text);
  file_->maker = maker;
  steps_ = metrics.steps();
}

}  // namespace sluice
