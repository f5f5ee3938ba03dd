#include "ops/gated_delta_rule.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

/// Token by token, with a decay by token or by channel.
at::Tensor delta_rule_formula(const Tensors& in, const Tensors&) {
  const std::int64_t repeats = in[2].size(2) / in[1].size(2), channels = in[1].size(3);
  const at::Tensor q = normalised(in[0]).repeat_interleave(repeats, 2);
  const at::Tensor k = normalised(in[1]).repeat_interleave(repeats, 2);
  const at::Tensor decay = in[3].dim() == 4 ? in[3].exp() : in[3].exp().unsqueeze(-1);
  at::Tensor state = at::zeros({in[2].size(0), in[2].size(2), channels, in[2].size(3)}, in[2].options());
  Tensors out;
  for (std::int64_t t = 0; t < in[2].size(1); ++t) {
    const at::Tensor key = k.select(1, t).unsqueeze(-1);
    const at::Tensor decayed = state * decay.select(1, t).unsqueeze(-1);
    const at::Tensor old_value = (decayed * key).sum(-2);
    const at::Tensor change = in[4].select(1, t).unsqueeze(-1) * (in[2].select(1, t) - old_value);
    state = decayed + key * change.unsqueeze(-2);
    out.push_back((state * q.select(1, t).unsqueeze(-1)).sum(-2) / std::sqrt(static_cast<double>(channels)));
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

/// Decays by channel, drawn from 1e-4 to 40 a token, evenly in their logarithms.
Tensors channel_inputs(std::int64_t length, at::ScalarType dtype = at::kFloat, std::int64_t channels = 8) {
  Tensors in = inputs(length, 2, 4, dtype);
  in[0] = numbers({2, length, 2, channels}, dtype, 1);
  in[1] = numbers({2, length, 2, channels}, dtype, 2);
  const at::Tensor share = at::sigmoid(2 * numbers({2, length, 4, channels}, at::kFloat, 4));
  in[3] = -at::exp(std::log(1e-4) + share * std::log(40 / 1e-4));
  return in;
}

/// Asks for finite numbers within `tolerance` of those of the formula, by the largest number of each part.
void expect_near_by_part(const at::Tensor& found, const at::Tensor& wanted, double tolerance,
                         std::int64_t parts) {
  EXPECT_TRUE(found.isfinite().all().item<bool>());
  const at::Tensor expected = wanted.reshape({-1, parts}),
                   actual = found.to(at::kDouble).reshape({-1, parts});
  const at::Tensor largest = std::get<0>(expected.abs().max(0)).clamp_min(1e-30);
  const at::Tensor errors = std::get<0>((actual - expected).abs().max(0)) / largest;
  EXPECT_LE(errors.max().item<double>(), tolerance);
}

/// Holds results and gradients against those of the recurrence in float64, gradients of decays by head and channel.
void expect_channel_recurrence(const Tensors& values, const Documents& documents, double tolerance) {
  Tensors in, exact;
  for (const at::Tensor& x : values) {
    in.push_back(x.detach().clone().requires_grad_());
    exact.push_back(x.detach().to(at::kDouble).requires_grad_());
  }
  const at::Tensor out = gated_delta_rule({in[0], in[1], in[2], in[3], in[4]}, documents);
  const auto formula = [](const Tensors& part) { return delta_rule_formula(part, {}); };
  const at::Tensor expected = documents.packed() ? by_document(documents, exact, formula) : formula(exact);
  const at::Tensor d_out = numbers(out.sizes(), out.scalar_type(), 9);
  out.backward(d_out);
  expected.backward(d_out.to(at::kDouble));
  expect_near_by_part(out.detach(), expected.detach(), tolerance, 1);
  for (std::size_t i = 0; i < in.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    expect_near_by_part(in[i].grad(), exact[i].grad(), tolerance, i == 3 ? in[3].size(2) * in[3].size(3) : 1);
  }
}

TEST(GatedDeltaRuleByChannel, matches_the_recurrence_for_decays_of_any_size) {
  for (const std::int64_t length : {1, 2, 63, 64, 65, 1000}) {
    SCOPED_TRACE(length);
    expect_channel_recurrence(channel_inputs(length), {}, 1e-4);
  }
}

TEST(GatedDeltaRuleByChannel, has_any_number_of_channels) {
  for (const std::int64_t channels : {1, 64, 72})
    expect_channel_recurrence(channel_inputs(70, at::kFloat, channels), {}, 1e-4);
}

TEST(GatedDeltaRuleByChannel, one_strong_channel_takes_nothing_from_weak_ones) {
  Tensors in = channel_inputs(200);
  in[3] = at::full_like(in[3], -1e-4F);
  in[3].select(3, 2).fill_(-40.0F);
  expect_channel_recurrence(in, {}, 1e-4);
}

TEST(GatedDeltaRuleByChannel, carries_a_state_over_a_thousand_tokens) {
  Tensors in = channel_inputs(1000);
  in[3] = at::full_like(in[3], -1e-4F);
  in[4] = in[4] * 0.01F;
  expect_channel_recurrence(in, {}, 1e-4);
}

TEST(GatedDeltaRuleByChannel, of_packed_documents_is_that_of_each_alone) {
  for (const std::int64_t length : {10, 64, 210}) {
    SCOPED_TRACE(length);
    expect_channel_recurrence(channel_inputs(length), packed_documents(length), 1e-4);
  }
}

TEST(GatedDeltaRuleByChannel, follows_it_in_bfloat16) {
  expect_channel_recurrence(channel_inputs(100, at::kBFloat16), {}, 0.02);
}

TEST(GatedDeltaRuleByChannel, equal_decays_of_all_channels_are_a_decay_by_token) {
  Tensors in = inputs(150, 2, 4, at::kFloat);
  const at::Tensor by_token = delta_rule_operation(in);
  in[3] = in[3].unsqueeze(-1).expand({-1, -1, -1, 8});
  expect_close(delta_rule_operation(in), by_token);
}

TEST(GatedDeltaRuleByChannel, of_one_token_then_three_then_the_rest_is_that_of_the_whole) {
  const Tensors in = channel_inputs(150);
  at::Tensor state = at::zeros({2, 4, 8, 6});
  Tensors outs;
  std::int64_t begin = 0;
  for (const std::int64_t count : {1, 3, 146}) {
    Tensors part;
    for (const at::Tensor& x : in) part.push_back(x.narrow(1, begin, count));
    outs.push_back(continue_gated_delta_rule({part[0], part[1], part[2], part[3], part[4]}, state));
    begin += count;
  }
  expect_close(at::cat(outs, 1), delta_rule_operation(in), 1e-5);
}

TEST(GatedDeltaRuleByChannel, decay_that_forgets_everything_gives_finite_gradients) {
  Tensors in = channel_inputs(130);
  in[3] = at::full_like(in[3], -2000.0F);
  expect_channel_recurrence(in, {}, 1e-4);
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
