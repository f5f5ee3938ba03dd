#include "ops/norm.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

at::Tensor norm_formula(const Tensors& in, const Tensors& w) {
  return w[0] * (in[0] * (in[0].square().mean(-1, true) + 1e-6).rsqrt());
}
at::Tensor norm_operation(const Tensors& in, const Parameters& w) { return row_norm(in[0], w[0], 1e-6); }

TEST(RmsNorm, matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t width : {7, 64, 129})
      expect_matches(norm_operation, norm_formula, {numbers({150, width}, dtype)},
                     {parameter(numbers({width}, dtype, 2))});
}

TEST(RmsNorm, normalises_the_last_of_several_dimensions) {
  expect_matches(norm_operation, norm_formula, {numbers({2, 3, 4, 16})},
                 {parameter(numbers({16}, at::kFloat, 2))});
}

TEST(RmsNorm, a_zero_centred_weight_is_added_to_one) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([](const Tensors& in,
                      const Parameters& w) { return row_norm(in[0], w[0], 1e-6, NormKind::kZeroCentred); },
                   [](const Tensors& in, const Tensors& w) { return norm_formula(in, {1 + w[0]}); },
                   {numbers({150, 65}, dtype)}, {parameter(numbers({65}, dtype, 2))});
}

TEST(RmsNorm, rounds_a_zero_centred_product_once_as_transformers_does) {
  const at::Tensor x = numbers({32, 48}, at::kBFloat16);
  const at::Tensor weight = numbers({48}, at::kBFloat16, 2);
  const at::Tensor expected = norm_formula({x.to(at::kFloat)}, {1 + weight.to(at::kFloat)}).to(at::kBFloat16);
  const at::Tensor differs = row_norm(x, {weight, {}}, 1e-6, NormKind::kZeroCentred).ne(expected);
  EXPECT_LE(differs.sum().item<std::int64_t>(), 2) << "but for sums that round differently";
}

TEST(RmsNorm, multiplies_with_a_weight_before_it_rounds) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([](const Tensors& in,
                      const Parameters& w) { return row_norm(in[0], w[0], 1e-6, NormKind::kUnrounded); },
                   norm_formula, {numbers({150, 65}, dtype)}, {parameter(numbers({65}, dtype, 2))});
  const at::Tensor x = numbers({32, 48}, at::kBFloat16), weight = numbers({48}, at::kBFloat16, 2);
  const at::Tensor expected = norm_formula({x.to(at::kFloat)}, {weight.to(at::kFloat)}).to(at::kBFloat16);
  const at::Tensor differs = row_norm(x, {weight, {}}, 1e-6, NormKind::kUnrounded).ne(expected);
  EXPECT_LE(differs.sum().item<std::int64_t>(), 2) << "but for sums that round differently";
}

TEST(RmsNorm, rounds_the_normalised_value_before_the_weight_as_transformers_does) {
  const at::Tensor x = numbers({32, 48}, at::kBFloat16);
  const at::Tensor weight = numbers({48}, at::kBFloat16, 2);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor normal = (wide * (wide.square().mean(-1, true) + 1e-6).rsqrt()).to(at::kBFloat16);
  const at::Tensor y = row_norm(x, {weight, {}}, 1e-6);
  const at::Tensor differs = y.ne(weight * normal);
  EXPECT_LE(differs.sum().item<std::int64_t>(), 2) << "but for sums that round differently";
}

at::Tensor layer_norm_formula(const Tensors& in, const Tensors& w) {
  return norm_formula({in[0] - in[0].mean(-1, true)}, w);
}
at::Tensor layer_norm(const Tensors& in, const Parameters& w) {
  return row_norm(in[0], w[0], 1e-6, NormKind::kLayerNorm);
}

TEST(LayerNorm, takes_the_mean_off_before_it_normalises) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t width : {7, 64, 129})
      expect_matches(layer_norm, layer_norm_formula, {numbers({150, width}, dtype)},
                     {parameter(numbers({width}, dtype, 2))});
}

TEST(LayerNorm, keeps_the_digits_of_rows_far_from_zero) {
  const at::Tensor x = numbers({20, 65}) + 1000, weight = numbers({65}, at::kFloat, 2);
  const at::Tensor expected = layer_norm_formula({x.to(at::kDouble)}, {weight.to(at::kDouble)});
  expect_close(layer_norm({x}, {{weight, {}}}), expected, 2e-4);  // the mean is a float32
}

TEST(LayerNorm, rounds_the_product_with_the_weight_once_as_transformers_does) {
  const at::Tensor x = numbers({32, 48}, at::kBFloat16), weight = numbers({48}, at::kBFloat16, 2);
  const at::Tensor expected = layer_norm_formula({x.to(at::kFloat)}, {weight.to(at::kFloat)});
  const at::Tensor differs = layer_norm({x}, {{weight, {}}}).ne(expected.to(at::kBFloat16));
  EXPECT_LE(differs.sum().item<std::int64_t>(), 2) << "but for sums that round differently";
}

TEST(RowNorm, gives_the_same_gradient_for_any_number_of_threads) {
  const at::Tensor x = numbers({5000, 64}).requires_grad_();
  for (const NormKind kind : {NormKind::kFactor, NormKind::kLayerNorm}) {
    Tensors grads;
    for (const int count : {1, 2, 3}) {
      const Threads threads(count);
      const Parameter weight = parameter(numbers({64}, at::kFloat, 2));
      row_norm(x, weight, 1e-6, kind).sum().backward();
      grads.push_back(weight.grad);
    }
    EXPECT_TRUE(grads[0].equal(grads[1]));
    EXPECT_TRUE(grads[0].equal(grads[2]));
  }
}

TEST(RmsNorm, reads_the_weight_again_in_backward) {
  const at::Tensor x = numbers({4, 8}).requires_grad_();
  const Parameter weight = parameter(numbers({8}, at::kFloat, 2));
  const at::Tensor y = row_norm(x, weight, 1e-6);
  weight.value.fill_(0);
  y.sum().backward();
  EXPECT_EQ(x.grad().abs().max().item<float>(), 0.0F);
}

}  // namespace
}  // namespace sluice::ops
