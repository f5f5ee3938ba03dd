#include "ops/gated_delta_rule.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

/// Decays between e^-2 and 1, and betas between 0 and 1.
Tensors inputs(std::int64_t length, std::int64_t key_heads, std::int64_t value_heads, at::ScalarType dtype) {
  return {numbers({2, length, key_heads, 8}, dtype, 1), numbers({2, length, key_heads, 8}, dtype, 2),
          numbers({2, length, value_heads, 6}, dtype, 3),
          (-2 * at::sigmoid(numbers({2, length, value_heads}, at::kFloat, 4))).to(dtype).to(at::kFloat),
          at::sigmoid(numbers({2, length, value_heads}, dtype, 5))};
}

at::Tensor delta_rule_operation(const Tensors& in, const Parameters& = {}) {
  return gated_delta_rule({in[0], in[1], in[2], in[3], in[4]});
}

at::Tensor normalised(const at::Tensor& x) { return x / (x.square().sum(-1, true) + 1e-6).sqrt(); }

/// Token by token.
at::Tensor delta_rule_formula(const Tensors& in, const Tensors&) {
  const std::int64_t repeats = in[2].size(2) / in[1].size(2);
  const at::Tensor q = normalised(in[0]).repeat_interleave(repeats, 2);
  const at::Tensor k = normalised(in[1]).repeat_interleave(repeats, 2);
  at::Tensor state = at::zeros({in[2].size(0), in[2].size(2), 8, 6}, in[2].options());
  Tensors out;
  for (std::int64_t t = 0; t < in[2].size(1); ++t) {
    const at::Tensor key = k.select(1, t).unsqueeze(-1);
    const at::Tensor decayed = state * in[3].select(1, t).exp().unsqueeze(-1).unsqueeze(-1);
    const at::Tensor old_value = (decayed * key).sum(-2);
    const at::Tensor change = in[4].select(1, t).unsqueeze(-1) * (in[2].select(1, t) - old_value);
    state = decayed + key * change.unsqueeze(-2);
    out.push_back((state * q.select(1, t).unsqueeze(-1)).sum(-2) / std::sqrt(8.0));
  }
  return at::stack(out, 1);
}

TEST(GatedDeltaRule, matches_the_recurrence_token_by_token) {
  for (const std::int64_t length : {1, 63, 64, 65, 150})
    expect_matches(delta_rule_operation, delta_rule_formula, inputs(length, 2, 4, at::kFloat), {});
}

TEST(GatedDeltaRule, of_packed_documents_is_that_of_each_alone) {
  for (const std::int64_t length : {10, 64, 210}) {
    const Documents documents = packed_documents(length);
    expect_matches(
        [&](const Tensors& in, const Parameters&) {
          return gated_delta_rule({in[0], in[1], in[2], in[3], in[4]}, documents);
        },
        [&](const Tensors& in, const Tensors& w) {
          return by_document(documents, in, [&](const Tensors& part) { return delta_rule_formula(part, w); });
        },
        inputs(length, 2, 4, at::kFloat), {});
  }
}

TEST(GatedDeltaRule, follows_it_in_bfloat16) {
  expect_matches(delta_rule_operation, delta_rule_formula, inputs(100, 3, 3, at::kBFloat16), {});
}

TEST(GatedDeltaRule, decay_that_forgets_everything_gives_finite_gradients) {
  Tensors in = inputs(130, 2, 2, at::kFloat);
  in[3] = at::full_like(in[3], -200.0F);
  for (at::Tensor& x : in) x.requires_grad_();
  const at::Tensor out = delta_rule_operation(in);
  out.sum().backward();
  EXPECT_TRUE(out.isfinite().all().item<bool>());
  for (const at::Tensor& x : in) EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

}  // namespace
}  // namespace sluice::ops
