#include "ops/rotary.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

at::Tensor frequencies(std::int64_t dim, double theta) {
  return at::pow(theta, at::arange(0, dim, 2, at::kLong).to(at::kFloat) / -dim);
}

/// transformers: x * cos + rotate_half(x) * sin, tables in x's dtype; both functions of that name that its
/// models have.
at::Tensor formula(const at::Tensor& x, const RotaryTable& table) {
  const bool is_interleaved = table.layout == RotaryLayout::kInterleaved;
  const auto whole = [&](const at::Tensor& angles) {
    const at::Tensor both = is_interleaved ? angles.repeat_interleave(2, 1) : at::cat({angles, angles}, 1);
    return both.narrow(0, 0, x.size(1)).unsqueeze(1).to(x.scalar_type());
  };
  const auto halves = x.chunk(2, -1);
  const at::Tensor turned = is_interleaved
                                ? at::stack({-x.slice(-1, 1, {}, 2), x.slice(-1, 0, {}, 2)}, -1).flatten(-2)
                                : at::cat({-halves[1], halves[0]}, -1);
  return x * whole(table.cos) + turned * whole(table.sin);
}

class Rotary : public testing::TestWithParam<RotaryLayout> {};
INSTANTIATE_TEST_SUITE_P(, Rotary, testing::Values(RotaryLayout::kHalves, RotaryLayout::kInterleaved),
                         [](const auto& each) {
                           return each.param == RotaryLayout::kHalves ? "halves" : "interleaved";
                         });

TEST_P(Rotary, matches_its_formula) {
  const RotaryTable table = make_rotary_table(12, frequencies(16, 10000.0), 1, GetParam());
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([&](const Tensors& in, const Parameters&) { return apply_rotary(in[0], table); },
                   [&](const Tensors& in, const Tensors&) { return formula(in[0], table); },
                   {numbers({2, 10, 3, 16}, dtype)}, {});
}

TEST_P(Rotary, turns_no_more_of_a_head_than_the_table_has) {
  const RotaryTable table = make_rotary_table(12, frequencies(8, 10000.0), 1, GetParam());
  const auto partial = [&](const Tensors& in, const Tensors&) {
    return at::cat({formula(in[0].narrow(-1, 0, 8), table), in[0].narrow(-1, 8, 13)}, -1);
  };
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([&](const Tensors& in, const Parameters&) { return apply_rotary(in[0], table); }, partial,
                   {numbers({2, 10, 3, 21}, dtype)}, {});
}

TEST_P(Rotary, rounds_as_transformers_does) {
  const RotaryTable table = make_rotary_table(64, frequencies(32, 1e6), 1, GetParam());
  const at::Tensor x = numbers({2, 64, 4, 32}, at::kBFloat16);
  EXPECT_TRUE(apply_rotary(x, table).equal(formula(x, table)));
}

TEST(RotaryTable, holds_the_angles_of_each_position_times_the_magnitude) {
  const RotaryTable table = make_rotary_table(100, frequencies(8, 10000.0), 1.5);
  ASSERT_EQ(table.cos.sizes(), at::IntArrayRef({100, 4}));
  for (const std::int64_t i : {0, 1, 2, 3}) {
    const double angle = 99.0 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 8.0);
    EXPECT_NEAR(table.cos[99][i].item<double>(), 1.5 * std::cos(angle), 2e-5);
    EXPECT_NEAR(table.sin[99][i].item<double>(), 1.5 * std::sin(angle), 2e-5);
  }
}

TEST_P(Rotary, rows_of_a_table_turn_tokens_as_the_whole_table_does) {
  const RotaryTable table = make_rotary_table(9, frequencies(8, 10000.0), 1, GetParam());
  const at::Tensor x = numbers({1, 9, 2, 8}, at::kFloat), positions = at::arange(4, 9, at::kLong);
  EXPECT_TRUE(apply_rotary(x.narrow(1, 4, 5), rotary_rows(table, positions))
                  .equal(apply_rotary(x, table).narrow(1, 4, 5)));
}

}  // namespace
}  // namespace sluice::ops
