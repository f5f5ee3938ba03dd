#include "base/error.hpp"
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
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSeconds = "train/step_seconds";

/// Of "2026-11-21T15:04:05Z"; 0 for what is no such time.
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
    // Of a single number NaN is what happened; in a list it stands for what was not measured.
    if (column.shape.empty() || !std::isnan(value)) scalars.push_back({tags[i], value});
  }
}

}  // namespace

fs::path export_events(const JoinedMetrics& metrics, const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail(ExitCode::kIo, "cannot create the directory {}: {}", directory.string(), error.message());
  // One name: TensorBoard would join a second file of the same run to the first.
  const fs::path file = directory / "events.out.tfevents.0000000000.sluice";
  OutputText out(file);
  const std::vector<JoinedColumn>& columns = metrics.columns();
  std::vector<std::vector<std::string>> tags;
  for (const JoinedColumn& column : columns) tags.push_back(tags_of(column));
  const std::vector<std::int64_t> starts = metrics.segment_starts();
  double time = seconds_since_1970(metrics.created(0));
  out.write(tf_record(event_file_version(time)));
  RowReader rows(metrics);
  for (std::int64_t row = 0; row < metrics.rows(); ++row) {
    if (std::ranges::binary_search(starts, row)) time = seconds_since_1970(metrics.created(row));
    std::vector<EventScalar> scalars;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::span<const double> values = rows.values(row, i);
      if (columns[i].name == kSeconds && columns[i].shape.empty() && std::isfinite(values.front()))
        time += values.front();
      add_scalars(columns[i], tags[i], values, scalars);
    }
    out.write(tf_record(event_of_step(time, metrics.steps()[static_cast<std::size_t>(row)], scalars)));
  }
  out.close();
  return file;
}

}  // namespace sluice
