#include "report/thinning.hpp"

#include "metrics/segments.hpp"
#include "report/expert_load.hpp"
#include "report/metrics_file.hpp"
#include "support/temporary_directory.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

using test::TemporaryDirectory;
using test::write_metrics;

TEST(Thinning, makes_groups_of_one_size_and_names_each_by_its_middle) {
  const std::vector<std::int64_t> steps{1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(Thinning(7, 7).size(), 1);
  const Thinning three(7, 3);
  EXPECT_EQ(three.size(), 3);
  EXPECT_EQ(three.points(), 3);
  EXPECT_EQ(three.steps(steps), (std::vector<std::int64_t>{2, 5, 7}));
  EXPECT_EQ(Thinning(7, 2).steps(steps), (std::vector<std::int64_t>{2, 6}))
      << "of four the second, of three too";
}

TEST(Thinning, keeps_mean_and_extremes_and_passes_over_what_is_no_number) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 6, test::header_for(64), [](TrainRow& row) {
    const std::array losses{1.0, 5.0, 3.0, std::nan(""), 7.0, std::numeric_limits<double>::infinity()};
    row.loss = losses.at(static_cast<std::size_t>(row.step - 1));
  });
  const JoinedMetrics metrics(existing_segments(directory / "metrics.h5"));
  const ThinSeries loss = thin(metrics, *metrics.find("train/loss"), Thinning(6, 2)).front();
  EXPECT_EQ(loss.mean, (std::vector<double>{3, 7}));
  EXPECT_EQ(loss.low, (std::vector<double>{1, 7}));
  EXPECT_EQ(loss.high, (std::vector<double>{5, 7}));
}

TEST(ExpertLoad, is_measured_against_an_even_share) {
  EXPECT_EQ(busiest_expert(std::array{1.0, 2.0, 3.0, 2.0}), 1.5);
  EXPECT_EQ(busiest_expert(std::array{0.0, 0.0, 0.0, 8.0}), 4);
  EXPECT_TRUE(std::isnan(busiest_expert(std::array{0.0, 0.0})));
}

TEST(ExpertLoad, is_a_character_for_each_expert_and_time) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 4);
  const JoinedMetrics metrics(existing_segments(directory / "metrics.h5"));
  const JoinedColumn& tokens = *metrics.find("moe/expert_tokens");
  const ExpertLoad load = expert_load(metrics, tokens, Thinning(4, 2));
  // 1, 2, 3, 2 of 2: half, even, one and a half, even; then nothing and four times as much.
  EXPECT_EQ(load.cells(0), "WgmgWgmg");
  EXPECT_EQ(load.cells(1), "AAA1AAA1");
  EXPECT_EQ(busiest_experts(metrics, tokens, Thinning(4, 1)), std::vector<double>{(1.5 + 4) / 2});
}

TEST(ExpertLoad, tells_the_share_of_choices_of_each_expert) {
  const TemporaryDirectory directory;
  write_metrics(directory / "metrics.h5", 1, 3);
  const JoinedMetrics metrics(existing_segments(directory / "metrics.h5"));
  EXPECT_EQ(expert_shares(metrics),
            (std::vector<std::vector<double>>{{0.125, 0.25, 0.375, 0.25}, {0, 0, 0, 1}}));
}

}  // namespace
}  // namespace sluice
