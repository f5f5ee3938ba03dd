#include "base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace sluice {
namespace {

std::vector<float> draw(const RandomStream& stream, std::int64_t begin, std::int64_t count,
                        float deviation = 1) {
  std::vector<float> out(static_cast<std::size_t>(count));
  stream.normal(begin, count, deviation, out.data());
  return out;
}

TEST(RandomStream, does_not_depend_on_how_a_range_is_cut) {
  const RandomStream stream(7, "model.embed_tokens.weight");
  const std::int64_t begin = (std::int64_t{1} << 33) + 1;
  const std::vector<float> whole = draw(stream, begin, 1001, 0.02f);
  for (const std::int64_t piece : {1, 2, 3, 64, 333, 1000}) {
    std::vector<float> joined;
    for (std::int64_t at = 0; at < 1001; at += piece) {
      const std::vector<float> part =
          draw(stream, begin + at, std::min<std::int64_t>(piece, 1001 - at), 0.02f);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole) << piece;
  }
}

TEST(RandomStream, draws_on_several_cores_what_one_draws) {
  const RandomStream stream(7, "model.norm.weight");
  constexpr std::int64_t kCount = 70'001, kPiece = 1'000;
  std::vector<float> joined;
  for (std::int64_t at = 0; at < kCount; at += kPiece) {
    const std::vector<float> part = draw(stream, 5 + at, std::min(kPiece, kCount - at));
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(draw(stream, 5, kCount), joined);
}

TEST(RandomStream, draws_nothing_for_an_empty_range) { RandomStream(7, "a").normal(5, 0, 1, nullptr); }

TEST(RandomStream, differs_by_seed_and_name) {
  std::set<std::vector<float>> seen;
  for (const std::uint64_t seed : {0, 1, 2})
    for (const char* name : {"a", "b", "ab", ""}) seen.insert(draw(RandomStream(seed, name), 0, 8));
  EXPECT_EQ(seen.size(), 12u);
}

TEST(RandomStream, is_standard_normal_in_its_first_four_moments) {
  const std::int64_t count = 1 << 20;
  double sums[4] = {0, 0, 0, 0};
  for (const float x : draw(RandomStream(3, "moments"), 0, count)) {
    double power = 1;
    for (double& sum : sums) sum += power *= static_cast<double>(x);
  }
  // Five standard errors of each mean over 2^20 draws: variances of x, x^2, x^3, x^4 are 1, 2, 15, 96.
  const double unit = 5 / std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(sums[0] / count, 0, unit);
  EXPECT_NEAR(sums[1] / count, 1, unit * std::sqrt(2.0));
  EXPECT_NEAR(sums[2] / count, 0, unit * std::sqrt(15.0));
  EXPECT_NEAR(sums[3] / count, 3, unit * std::sqrt(96.0));
}

TEST(RandomStream, has_no_correlation_between_neighbours) {
  const std::int64_t count = 1 << 20;
  const std::vector<float> x = draw(RandomStream(4, "neighbours"), 0, count + 2);
  for (const std::size_t lag : {1u, 2u}) {
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      sum += static_cast<double>(x[i] * x[i + lag]);
    EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(static_cast<double>(count))) << lag;
  }
}

TEST(RandomStream, scales_with_the_standard_deviation) {
  const RandomStream stream(5, "scale");
  const std::vector<float> unit = draw(stream, 0, 100);
  const std::vector<float> scaled = draw(stream, 0, 100, 0.5f);
  for (std::size_t i = 0; i < unit.size(); ++i) EXPECT_EQ(scaled[i], 0.5f * unit[i]);
}

}  // namespace
}  // namespace sluice
