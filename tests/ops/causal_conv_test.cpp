#include "ops/causal_conv.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::ops {
namespace {

/// As transformers writes it: with silu in delta nets, without in short convolutions.
at::Tensor convolution_formula(const Tensors& in, const Tensors& w, ConvActivation activation) {
  const std::int64_t taps = w[0].size(2);
  const at::Tensor channels_first = in[0].transpose(1, 2);
  const at::Tensor all = at::conv1d(channels_first, w[0], {}, 1, taps - 1, 1, w[0].size(0));
  const at::Tensor sums = all.narrow(2, 0, in[0].size(1)).transpose(1, 2);
  return activation == ConvActivation::kSilu ? at::silu(sums) : sums;
}

class CausalConv : public testing::TestWithParam<ConvActivation> {
 protected:
  static void expect_formula(const at::Tensor& x, const at::Tensor& weight, const Documents& documents = {}) {
    expect_matches([&](const Tensors& in,
                       const Parameters& w) { return causal_conv(in[0], w[0], GetParam(), documents); },
                   [&](const Tensors& in, const Tensors& w) {
                     const auto formula = [&](const Tensors& part) {
                       return convolution_formula(part, w, GetParam());
                     };
                     return documents.first.defined() ? by_document(documents, in, formula) : formula(in);
                   },
                   {x}, {parameter(weight)});
  }
};
INSTANTIATE_TEST_SUITE_P(Activations, CausalConv,
                         testing::Values(ConvActivation::kSilu, ConvActivation::kNone));

TEST_P(CausalConv, matches_its_formula_for_any_number_of_channels_and_tokens) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t channels : {3, 128, 200})
      for (const std::int64_t length : {1, 2, 40})
        expect_formula(numbers({2, length, channels}, dtype), numbers({channels, 1, 4}, dtype, 2));
}

TEST_P(CausalConv, of_packed_documents_is_that_of_each_alone) {
  for (const at::ScalarType dtype : kDTypes)
    expect_formula(numbers({2, 70, 130}, dtype), numbers({130, 1, 4}, dtype, 2), packed_documents(70));
}

TEST_P(CausalConv, sees_no_later_token) {
  const Parameter weight = parameter(numbers({5, 1, 4}, at::kFloat, 2));
  const at::Tensor x = numbers({1, 9, 5});
  const at::Tensor before = causal_conv(x, weight, GetParam());
  x[0][6].fill_(100);
  EXPECT_TRUE(causal_conv(x, weight, GetParam()).narrow(1, 0, 6).equal(before.narrow(1, 0, 6)));
}

TEST_P(CausalConv, of_one_token_then_three_then_the_rest_is_that_of_the_whole) {
  for (const std::int64_t taps : {1, 3, 4}) {
    const Parameter weight = parameter(numbers({5, 1, taps}, at::kFloat, 2));
    const at::Tensor x = numbers({2, 9, 5});
    at::Tensor window = at::zeros({2, taps - 1, 5});
    std::vector<at::Tensor> parts;
    std::int64_t begin = 0;
    for (const std::int64_t count : {1, 3, 5}) {
      parts.push_back(continue_causal_conv(x.narrow(1, begin, count), weight, GetParam(), window));
      begin += count;
    }
    EXPECT_TRUE(at::cat(parts, 1).equal(causal_conv(x, weight, GetParam()))) << taps;
  }
}

}  // namespace
}  // namespace sluice::ops
