#include "report/joined_metrics.hpp"

#include "metrics/segments.hpp"
#include "report/metrics_file.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <cmath>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using test::write_metrics;

std::vector<double> all_of(const JoinedMetrics& metrics, const char* name) {
  return metrics.read(*metrics.find(name), 0, metrics.rows());
}

TEST(JoinedMetrics, takes_steps_that_were_trained_again_from_the_later_segment) {
  const TemporaryDirectory directory;
  const auto change_loss = [](TrainRow& row) { row.loss = 100; };
  write_metrics(directory / "metrics.h5", 1, 5);
  write_metrics(directory / "metrics.0001.h5", 4, 4, test::header_for(64), change_loss);
  const JoinedMetrics metrics(existing_segments(directory / "metrics.h5"));
  EXPECT_EQ(metrics.steps(), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(all_of(metrics, "train/loss"), (std::vector<double>{1, 1. / 2, 1. / 3, 100}));
  EXPECT_EQ(metrics.segment_starts(), (std::vector<std::int64_t>{0, 3}));
}

TEST(JoinedMetrics, has_no_number_where_a_segment_has_fewer_ranks_or_lacks_a_column) {
  const TemporaryDirectory directory;
  MetricsHeader three = test::header_for(64);
  three.world_size = 3;
  three.held_out_files = 1;
  write_metrics(directory / "metrics.h5", 1, 1);
  write_metrics(directory / "metrics.0001.h5", 2, 2, three, [](TrainRow& row) {
    row.peak_bytes = row.planned_bytes = row.peak_growth_bytes = {7, 8, 9};
  });
  const JoinedMetrics metrics(existing_segments(directory / "metrics.h5"));
  const std::vector<double> peaks = all_of(metrics, "memory/peak_bytes");
  ASSERT_EQ(peaks.size(), 6U);
  EXPECT_EQ(peaks[1], 10);
  EXPECT_TRUE(std::isnan(peaks[2]));
  EXPECT_EQ(std::vector(peaks.begin() + 3, peaks.end()), (std::vector<double>{7, 8, 9}));
  const std::vector<double> held_out = all_of(metrics, "train/held_out_loss");
  EXPECT_TRUE(std::isnan(held_out[0]));
  EXPECT_EQ(held_out[1], 3.5);
}

TEST(JoinedMetrics, leaves_out_a_last_row_that_was_never_finished) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 3, test::header_for(64), [](TrainRow& row) {
    if (row.step == 3) row.step = 0;
  });
  EXPECT_EQ(JoinedMetrics(existing_segments(directory / "metrics.h5")).steps(),
            (std::vector<std::int64_t>{1, 2}));
}

/// A file whose datasets say what they like.
void write_file(const std::filesystem::path& path, const std::vector<std::int64_t>& steps,
                const std::string& column, const std::vector<std::int64_t>& shape) {
  hdf5::File file = hdf5::File::create(path);
  file.create_dataset("/train/step", DType::kInt64, {std::ssize(steps)}).write(std::span(steps));
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  const std::vector<double> values(static_cast<std::size_t>(elements));
  file.create_dataset(column, DType::kFloat64, shape).write(std::span(values));
  file.set_attribute(column, "units", "1");
  file.close();
}

TEST(JoinedMetrics, may_have_no_row_yet) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 0);
  const JoinedMetrics metrics(existing_segments(directory / "metrics.h5"));
  EXPECT_EQ(metrics.rows(), 0);
  EXPECT_TRUE(metrics.columns().empty());
}

TEST(JoinedMetrics, refuses_what_is_no_metrics_file_of_a_training) {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& name, const std::string& reason) {
    expect_error(ExitCode::kBadData, {name, reason},
                 [&] { static_cast<void>(JoinedMetrics(std::vector{directory / name})); });
  };
  static_cast<void>(directory.write("text.h5", "no HDF5"));
  refused("text.h5", "HDF5");
  write_file(directory / "descends.h5", {2, 1}, "/train/loss", {2});
  refused("descends.h5", "do not ascend");
  write_file(directory / "short.h5", {1, 2}, "/train/loss", {1});
  refused("short.h5", "/train/loss has the shape [1]");
  write_file(directory / "name.h5", {1}, "/train/a,\"b", {1});
  refused("name.h5", "a,\"b");
  write_file(directory / "wide.h5", {1}, "/memory/peak_bytes", {1, (1 << 24) + 1});
  refused("wide.h5", "/memory/peak_bytes");
  hdf5::File other = hdf5::File::create(directory / "other.h5");
  other.create_group("/evaluate");
  other.close();
  refused("other.h5", "not the metrics file");
  hdf5::File huge = hdf5::File::create(directory / "huge.h5");
  huge.create_dataset("/train/step", DType::kInt64, {0}, {.block_rows = 1 << 20, .holes = true})
      .set_rows((std::int64_t{1} << 26) + 1);
  huge.close();
  refused("huge.h5", "/train/step");
}

}  // namespace
}  // namespace sluice
