#include "report/merge.hpp"

#include "io/hdf5.hpp"
#include "metrics/metrics_rows.hpp"
#include "metrics/metrics_writer.hpp"
#include "metrics/segments.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

using test::expect_error;
using test::header_for;
using test::row_of;
using test::TemporaryDirectory;
using Steps = std::vector<std::int64_t>;

void write_segment(const std::filesystem::path& path, const Steps& steps, int world_size = 2,
                   double loss = 0) {
  MetricsHeader header = header_for(100);
  header.world_size = world_size;
  MetricsWriter writer(path, header);
  for (const std::int64_t step : steps) {
    TrainRow row = row_of(step);
    if (loss != 0) row.loss = loss;
    for (auto* ranks : {&row.peak_bytes, &row.planned_bytes, &row.peak_growth_bytes})
      ranks->resize(static_cast<std::size_t>(world_size), 7);
    writer.append(row);
  }
  writer.close();
}

TEST(MergeMetrics, joins_segments_and_takes_steps_that_were_trained_again_from_the_latest) {
  const TemporaryDirectory directory;
  const std::filesystem::path first = directory / "metrics.h5", merged = directory / "all.h5";
  write_segment(first, {1, 2, 3, 4});
  write_segment(metrics_segment(first, 1), {3, 4, 5}, 2, 10);
  write_segment(metrics_segment(first, 2), {});
  write_segment(metrics_segment(first, 3), {5, 6}, 2, 20);
  const MergeReport report = merge_metrics(existing_segments(first), merged);
  EXPECT_EQ(report.rows, 6);
  EXPECT_EQ(report.replaced_rows, 3);
  const hdf5::File file = hdf5::File::open(merged);
  EXPECT_EQ(file.dataset("/train/step").read<std::int64_t>(), (Steps{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.dataset("/train/loss").read<double>(), (std::vector<double>{1, 0.5, 10, 10, 20, 20}));
  EXPECT_EQ(file.dataset("/train/mfu").read<double>(),
            file.dataset("/train/product_rate_share").read<double>());
  EXPECT_EQ(file.dataset("/moe/expert_tokens").shape(), (Steps{6, test::kMoeLayers, test::kExperts}));
  EXPECT_EQ(file.text_attribute("/train/loss", "units"), "nat/token");
  EXPECT_EQ(file.text_attribute("/", "segments"),
            "metrics.h5\nmetrics.0001.h5\nmetrics.0002.h5\nmetrics.0003.h5");
  EXPECT_EQ(file.attribute<std::int64_t>("/", "rows"), Steps{6});
  EXPECT_TRUE(file.exists("/load/seconds"));
}

TEST(MergeMetrics, fills_the_numbers_of_ranks_that_a_segment_did_not_have) {
  const TemporaryDirectory directory;
  const std::filesystem::path first = directory / "metrics.h5", merged = directory / "all.h5";
  write_segment(first, {1}, 1);
  write_segment(metrics_segment(first, 1), {2}, 3);
  static_cast<void>(merge_metrics(existing_segments(first), merged));
  const hdf5::File file = hdf5::File::open(merged);
  const Steps peaks = file.dataset("/memory/peak_bytes").read<std::int64_t>();
  ASSERT_EQ(peaks.size(), 6U);
  EXPECT_EQ((Steps{peaks[1], peaks[2]}), (Steps{-1, -1}));
  EXPECT_EQ(peaks[5], 7);
}

TEST(MergeMetrics, refuses_what_is_not_there_or_would_be_overwritten) {
  const TemporaryDirectory directory;
  const std::filesystem::path first = directory / "metrics.h5", merged = directory / "all.h5";
  write_segment(first, {});
  expect_error(ExitCode::kBadData, {"there are no rows"},
               [&] { static_cast<void>(merge_metrics(existing_segments(first), merged)); });
  write_segment(metrics_segment(first, 1), {1});
  static_cast<void>(merge_metrics(existing_segments(first), merged));
  expect_error(ExitCode::kIo, {"exists already"},
               [&] { static_cast<void>(merge_metrics(existing_segments(first), merged)); });
}

}  // namespace
}  // namespace sluice
