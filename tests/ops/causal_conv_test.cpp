#include "ops/causal_conv.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

at::Tensor convolution_operation(const Tensors& in, const Parameters& w) {
  return causal_conv_silu(in[0], w[0]);
}

/// As transformers writes it.
at::Tensor convolution_formula(const Tensors& in, const Tensors& w) {
  const std::int64_t taps = w[0].size(2);
  const at::Tensor channels_first = in[0].transpose(1, 2);
  const at::Tensor sums = at::conv1d(channels_first, w[0], {}, 1, taps - 1, 1, w[0].size(0));
  return at::silu(sums.narrow(2, 0, in[0].size(1))).transpose(1, 2);
}

TEST(CausalConvSilu, matches_its_formula_for_any_number_of_channels_and_tokens) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t channels : {3, 128, 200})
      for (const std::int64_t length : {1, 2, 40})
        expect_matches(convolution_operation, convolution_formula, {numbers({2, length, channels}, dtype)},
                       {parameter(numbers({channels, 1, 4}, dtype, 2))});
}

TEST(CausalConvSilu, of_packed_documents_is_that_of_each_alone) {
  for (const at::ScalarType dtype : kDTypes) {
    const Documents documents = packed_documents(70);
    expect_matches(
        [&](const Tensors& in, const Parameters& w) { return causal_conv_silu(in[0], w[0], documents); },
        [&](const Tensors& in, const Tensors& w) {
          return by_document(documents, in,
                             [&](const Tensors& part) { return convolution_formula(part, w); });
        },
        {numbers({2, 70, 130}, dtype)}, {parameter(numbers({130, 1, 4}, dtype, 2))});
  }
}

TEST(CausalConvSilu, sees_no_later_token) {
  const Parameter weight = parameter(numbers({5, 1, 4}, at::kFloat, 2));
  const at::Tensor x = numbers({1, 9, 5});
  const at::Tensor before = causal_conv_silu(x, weight);
  x[0][6].fill_(100);
  EXPECT_TRUE(causal_conv_silu(x, weight).narrow(1, 0, 6).equal(before.narrow(1, 0, 6)));
}

}  // namespace
}  // namespace sluice::ops
