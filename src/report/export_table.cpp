#include "base/error.hpp"
#include "report/column_names.hpp"
#include "report/export_metrics.hpp"
#include "report/output_text.hpp"
#include "report/row_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// A number with all its digits; `none` for NaN. JSON has no infinity either.
std::string number_text(double value, bool is_integer, const char* none, bool keep_infinity) {
  if (std::isnan(value) || (std::isinf(value) && !keep_infinity)) return none;
  return is_integer ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

std::string csv_header(const std::vector<JoinedColumn>& columns) {
  std::string line = "step";
  for (const JoinedColumn& column : columns)
    for (const std::string& name : names_of_numbers(column)) line.append(1, ',').append(name);
  return line + "\n";
}

std::string csv_cells(const JoinedColumn& column, std::span<const double> values) {
  std::string cells;
  for (const double value : values)
    cells.append(1, ',').append(number_text(value, column.is_integer, "", true));
  return cells;
}

/// A JSON number, or lists of lists as the row's shape says.
std::string json_value(const JoinedColumn& column, std::span<const double> values, std::size_t dim = 0) {
  if (dim == column.shape.size()) return number_text(values.front(), column.is_integer, "null", false);
  std::vector<std::string> parts;
  const auto count = static_cast<std::size_t>(column.shape[dim]);
  for (std::size_t i = 0; i < count; ++i)
    parts.push_back(
        json_value(column, values.subspan(i * (values.size() / count), values.size() / count), dim + 1));
  return fmt::format("[{}]", fmt::join(parts, ","));
}

}  // namespace

void export_table(const JoinedMetrics& metrics, TableFormat format, const std::filesystem::path& file) {
  const std::vector<JoinedColumn>& columns = metrics.columns();
  const bool is_csv = format == TableFormat::kCsv;
  OutputText out(file);
  if (is_csv) out.write(csv_header(columns));
  RowReader rows(metrics);
  for (std::int64_t row = 0; row < metrics.rows(); ++row) {
    const std::int64_t step = metrics.steps()[static_cast<std::size_t>(row)];
    out.write(is_csv ? fmt::format("{}", step) : fmt::format("{{\"step\":{}", step));
    for (std::size_t i = 0; i < columns.size(); ++i)
      out.write(
          is_csv ? csv_cells(columns[i], rows.values(row, i))
                 : fmt::format(",\"{}\":{}", columns[i].name, json_value(columns[i], rows.values(row, i))));
    out.write(is_csv ? "\n" : "}\n");
  }
  out.close();
}

}  // namespace sluice
