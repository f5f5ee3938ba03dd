#include "generate/token_sampler.hpp"

#include "io/hdf5.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

namespace sluice {
namespace {

using Row = std::vector<float>;

/// What transformers' processors make of some rows (make_sampler_reference.py).
class SamplerReference : public testing::Test {
 protected:
  template <class T>
  std::vector<T> read(const std::string& name) const {
    return file_.dataset(name).read<T>();
  }
  template <class T>
  std::vector<T> row_of(const std::vector<T>& all, std::size_t row) const {
    const std::size_t width = all.size() / rows();
    return {all.begin() + static_cast<std::ptrdiff_t>(row * width),
            all.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
  }
  std::size_t rows() const { return top_k_.size(); }
  std::vector<std::int64_t> seen(std::size_t row) const { return row_of(seen_, row); }

  /// Holds what `filter`(logits, row) keeps against the dataset `name`.
  void expect_kept(const std::string& name, const std::function<void(Row&, std::size_t)>& filter) const {
    const auto expected = read<std::int32_t>(name);
    for (std::size_t row = 0; row < rows(); ++row) {
      Row logits = row_of(logits_, row);
      filter(logits, row);
      std::vector<std::int32_t> kept;
      for (const float logit : logits) kept.push_back(std::isfinite(logit) ? 1 : 0);
      ASSERT_EQ(kept, row_of(expected, row)) << name << ", row " << row;
    }
  }

  hdf5::File file_ = hdf5::File::open(fixture_folder() / "sampler.h5");
  std::vector<float> logits_ = read<float>("logits");
  std::vector<std::int64_t> seen_ = read<std::int64_t>("seen"), top_k_ = read<std::int64_t>("top_k");
  std::vector<double> top_p_ = read<double>("top_p"), min_p_ = read<double>("min_p"),
                      penalty_ = read<double>("repetition_penalty"),
                      temperature_ = read<double>("temperature");
};

TEST_F(SamplerReference, top_k_keeps_what_transformers_keeps) {
  expect_kept("kept/top_k", [&](Row& logits, std::size_t row) { keep_top_k(logits, top_k_[row]); });
}

TEST_F(SamplerReference, top_p_keeps_what_transformers_keeps) {
  expect_kept("kept/top_p", [&](Row& logits, std::size_t row) { keep_top_p(logits, top_p_[row]); });
}

TEST_F(SamplerReference, min_p_keeps_what_transformers_keeps) {
  expect_kept("kept/min_p", [&](Row& logits, std::size_t row) { keep_min_p(logits, min_p_[row]); });
}

TEST_F(SamplerReference, all_of_them_keep_together_what_they_keep_in_transformers) {
  expect_kept("kept/all", [&](Row& logits, std::size_t row) {
    keep_tokens(logits, seen(row),
                {.temperature = temperature_[row],
                 .top_k = top_k_[row],
                 .top_p = top_p_[row],
                 .min_p = min_p_[row],
                 .repetition_penalty = penalty_[row]});
  });
}

TEST_F(SamplerReference, the_penalty_changes_what_it_changes_in_transformers) {
  const auto expected = read<float>("penalized");
  for (std::size_t row = 0; row < rows(); ++row) {
    Row logits = row_of(logits_, row);
    penalize_repetition(logits, seen(row), penalty_[row]);
    const Row penalized = row_of(expected, row);
    for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_FLOAT_EQ(logits[i], penalized[i]) << row;
  }
}

TEST(TokenSampler, draws_tokens_as_often_as_they_are_probable) {
  const Row logits{0.5F, 2.0F, -1.0F, 0.0F, 1.0F, 1.5F, -3.0F, 0.7F};
  constexpr std::int64_t kDraws = 100'000;
  const GenerateSettings options{.temperature = 0.8, .top_k = 7, .seed = 5};
  std::vector<std::int64_t> counts(logits.size(), 0);
  for (std::int64_t draw = 0; draw < kDraws; ++draw) {
    Row row = logits;
    const TokenSampler sampler(options, draw / 100);
    ++counts[static_cast<std::size_t>(sampler.next(row, {}, draw % 100))];
  }
  std::vector<double> expected;
  for (const float logit : logits) expected.push_back(logit < -2 ? 0 : std::exp(logit / 0.8));
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  double chi_square = 0;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (expected[token] == 0) {
      EXPECT_EQ(counts[token], 0) << "top-k rules it out";
      continue;
    }
    const double mean = kDraws * expected[token] / sum;
    chi_square += std::pow(static_cast<double>(counts[token]) - mean, 2) / mean;
  }
  EXPECT_LT(chi_square, 22.46) << "six degrees of freedom, one in a thousand";
}

TEST(TokenSampler, a_draw_depends_on_seed_prompt_and_position_alone) {
  const auto draw = [](std::int64_t seed, std::int64_t number, std::int64_t position) {
    Row logits(1000, 0.0F);
    return TokenSampler({.temperature = 1, .seed = seed}, number).next(logits, {}, position);
  };
  EXPECT_EQ(draw(1, 2, 3), draw(1, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(4, 2, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 4, 3));
  EXPECT_NE(draw(1, 2, 3), draw(1, 2, 4));
}

TEST(TokenSampler, takes_the_best_token_without_temperature) {
  Row logits{0.1F, 0.9F, 0.9F, 0.2F};
  EXPECT_EQ(TokenSampler({}, 0).next(logits, {}, 0), 1);
  EXPECT_EQ(TokenSampler({.repetition_penalty = 2}, 0).next(logits, std::vector<std::int64_t>{1}, 0), 2);
}

}  // namespace
}  // namespace sluice
