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
constexpr const char* kRows = "rows";

std::filesystem::path unfinished_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  return name += ".unfinished";
}

hdf5::File create_unfinished(const std::filesystem::path& path) {
  if (std::filesystem::exists(path))
    fail(ExitCode::kIo, "cannot create {}: it exists already", path.string());
  std::error_code ignored;
  std::filesystem::remove(unfinished_name(path),
                          ignored);  // removes a file left by a job that was killed while it created the file
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
  file.set_attribute("/", kRows, std::int64_t{0});
}

MetricValues unknown_values(DType dtype, int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  if (dtype == DType::kInt64) return std::vector<std::int64_t>(size, -1);
  return std::vector<double>(size, std::numeric_limits<double>::quiet_NaN());
}

/// Creates a dataset [size] with "not known" in every place.
hdf5::Dataset create_unknown(hdf5::File& file, const Column& column, int size) {
  hdf5::Dataset dataset = file.create_dataset(column.path, column.dtype, {size});
  write_values(dataset, {{0}, {size}}, unknown_values(column.dtype, size));
  describe(file, column);
  return dataset;
}

template <class Row>
std::vector<Column> plain_columns(const std::vector<ColumnOf<Row>>& columns) {
  std::vector<Column> out;
  for (const ColumnOf<Row>& column : columns) out.push_back(column.column);
  return out;
}

/// Values of all rows, by column.
std::vector<MetricValues> by_column(const std::vector<EvaluationRow>& rows) {
  std::vector<MetricValues> out;
  for (const EvaluationColumn& column : document_columns()) {
    MetricValues joined = column.values(rows.front());
    const auto append = [](auto& list, const auto& more) { list.push_back(more.front()); };
    for (std::size_t i = 1; i < rows.size(); ++i)
      std::visit([&]<class List>(List& list) { append(list, std::get<List>(column.values(rows[i]))); },
                 joined);
    out.push_back(std::move(joined));
  }
  return out;
}

}  // namespace

MetricsWriter::MetricsWriter(const std::filesystem::path& path, const MetricsHeader& header)
    : file_(create_unfinished(path)) {
  write_root_attributes(file_, header);
  create_steps(header);
  create_load(header.world_size);
  create_evaluation(header.documents);
  create_samples(header);
  file_.flush();
  std::error_code error;
  std::filesystem::rename(unfinished_name(path), path, error);
  if (error)
    fail(ExitCode::kIo, "cannot rename {} to {}: {}", unfinished_name(path).string(), path.string(),
         error.message());
}

void MetricsWriter::create_steps(const MetricsHeader& header) {
  step_columns_ = step_columns(header);
  steps_.emplace(file_, plain_columns(step_columns_), header.expected_rows);
  for (const FormerName& former : former_names()) file_.create_link(former.path, former.target);
}

void MetricsWriter::create_load(int world_size) {
  for (const LoadColumn& column : load_columns())
    load_datasets_.push_back(create_unknown(file_, column.column, world_size));
}

void MetricsWriter::create_evaluation(std::int64_t documents) {
  if (documents == 0) return;
  documents_.emplace(file_, plain_columns(document_columns()), documents);
  for (const EvaluationColumn& column : total_columns())
    totals_.push_back(create_unknown(file_, column.column, 1));
}

void MetricsWriter::create_samples(const MetricsHeader& header) {
  if (header.samples == 0) return;
  sample_columns_ = sample_columns(header.sample_tokens);
  samples_.emplace(file_, plain_columns(sample_columns_), header.samples);
}

void MetricsWriter::write_load(const LoadTable& table) {
  const std::vector<LoadColumn> columns = load_columns();
  for (std::size_t i = 0; i < columns.size(); ++i)
    write_values(load_datasets_[i], {{0}, load_datasets_[i].shape()}, columns[i].values(table));
  file_.flush();
}

void MetricsWriter::append(const TrainRow& row) {
  std::vector<MetricValues> values;
  for (const StepColumn& column : step_columns_) values.push_back(column.values(row));
  steps_->append(file_, 1, values);
  tell_rows();
}

/// Tells readers of a growing file how many rows are valid. The row is there in any case, and the next call
/// tries again.
void MetricsWriter::tell_rows() noexcept {
  try {
    file_.change_attribute("/", kRows, steps_->rows());
    file_.flush();
  } catch (const Error& error) {
    log::debug("{}", error.what());
  }
}

void MetricsWriter::append(const std::vector<EvaluationRow>& documents) {
  SLUICE_ASSERT(documents_, "{} was not created for the documents of an evaluation", file_.name());
  if (!documents.empty()) documents_->append(file_, std::ssize(documents), by_column(documents));
}

void MetricsWriter::append(const SampleRow& sample) {
  SLUICE_ASSERT(samples_, "{} was not created for samples of text", file_.name());
  std::vector<MetricValues> values;
  for (const SampleColumn& column : sample_columns_) values.push_back(column.values(sample));
  samples_->append(file_, 1, values);
}

void MetricsWriter::write_total(const EvaluationRow& total) {
  SLUICE_ASSERT(documents_, "{} was not created for the documents of an evaluation", file_.name());
  const std::vector<EvaluationColumn> columns = total_columns();
  for (std::size_t i = 0; i < columns.size(); ++i)
    write_values(totals_[i], {{0}, {1}}, columns[i].values(total));
  file_.flush();
}

void MetricsWriter::close() {
  steps_.reset();
  documents_.reset();
  samples_.reset();
  load_datasets_.clear();
  totals_.clear();
  file_.close();
}

}  // namespace sluice
