#include "ops/experts.hpp"

#include "ops/matmul.hpp"
#include "ops/op_check.hpp"
#include "ops/runtime/processor_types.hpp"
#include "support/no_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace sluice::ops {
namespace {

constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kHidden = 24;
constexpr std::int64_t kInner = 12;

/// The experts of a layer as they lie in a unit's buffer: gate, if they have one, up, down of one expert, then
/// the next.
Parameters laid_out(at::ScalarType dtype, const Gating& gating = {}) {
  const std::int64_t matrix = kInner * kHidden, projections = gating.projections(),
                     stride = (projections + 1) * matrix;
  const at::Tensor values = numbers({kExperts * stride}, dtype, 7) * 0.3;
  const at::Tensor grads = at::full({kExperts * stride}, 0.5F);
  const auto view = [&](const at::Tensor& buffer, at::IntArrayRef shape, std::int64_t offset) {
    return buffer.as_strided(shape, {stride, shape[2], 1}, offset);
  };
  const std::int64_t gate_up[] = {kExperts, projections * kInner, kHidden};
  const std::int64_t down[] = {kExperts, kHidden, kInner};
  return {{view(values, gate_up, 0), view(grads, gate_up, 0)},
          {view(values, down, projections * matrix), view(grads, down, projections * matrix)}};
}

/// Every expert over every token, times the token's weight for it.
at::Tensor formula(const Tensors& in, const Tensors& p, const at::Tensor& experts) {
  at::Tensor sum = at::zeros_like(in[0]);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    const auto halves = at::mm(in[0], p[0][e].t()).chunk(2, 1);
    const at::Tensor output = at::mm(at::silu(halves[0]) * halves[1], p[1][e].t());
    const at::Tensor weight = (in[1] * experts.eq(e).to(in[1].scalar_type())).sum(1, true);
    sum = sum + output * weight;
  }
  return sum;
}

at::Tensor run(const at::Tensor& x, const Parameters& p, const Routing& routing) {
  static test::NoExchange all_here;
  return experts(x, {p[0], p[1]}, routing, all_here);
}

void expect_matches_for(const at::Tensor& chosen, at::ScalarType dtype) {
  const std::int64_t tokens = chosen.size(0);
  expect_matches(
      [&](const Tensors& in, const Parameters& p) {
        return run(in[0], p, {chosen, in[1].to(at::kFloat), {}});
      },
      [&](const Tensors& in, const Tensors& p) { return formula(in, p, chosen); },
      {numbers({tokens, kHidden}, dtype), numbers({tokens, chosen.size(1)}, dtype, 2).abs() + 0.1},
      laid_out(dtype));
}

at::Tensor two_choices(std::int64_t tokens) {
  const at::Tensor first = at::arange(tokens, at::kLong).remainder(kExperts);
  return at::stack({first, (first * 2 + 1).remainder(kExperts)}, 1);
}

TEST(Experts, match_their_formula_in_a_unit_layout) {
  // Token e with 2e + 1 = e (mod 5) picks expert 4 twice, which must count twice.
  for (const at::ScalarType dtype : kDTypes) expect_matches_for(two_choices(43), dtype);
}

// 43 tokens are rows of a product of many; 3 are few, as in answers.
TEST(Experts, without_a_gate_square_the_relu_of_their_one_projection) {
  static test::NoExchange all_here;
  constexpr Gating kNoGate{.activation = Activation::kSquaredRelu};
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t tokens : {3, 43}) {
      const at::Tensor chosen = two_choices(tokens);
      expect_matches(
          [&](const Tensors& in, const Parameters& p) {
            const Routing routing{chosen, in[1].to(at::kFloat), {}};
            return experts(in[0], {p[0], p[1], nullptr, {}, {}, kNoGate}, routing, all_here);
          },
          [&](const Tensors& in, const Tensors& p) {
            at::Tensor sum = at::zeros_like(in[0]);
            for (std::int64_t e = 0; e < kExperts; ++e) {
              const at::Tensor output = at::mm(at::relu(at::mm(in[0], p[0][e].t())).square(), p[1][e].t());
              sum = sum + output * (in[1] * chosen.eq(e).to(in[1].scalar_type())).sum(1, true);
            }
            return sum;
          },
          {numbers({tokens, kHidden}, dtype), numbers({tokens, 2}, dtype, 2).abs() + 0.1},
          laid_out(dtype, kNoGate));
    }
}

/// laid_out(), and the biases of each expert behind its matrices.
Parameters laid_out_with_biases(at::ScalarType dtype) {
  constexpr std::int64_t kMatrix = kInner * kHidden, kStride = 3 * kMatrix + 2 * kInner + kHidden;
  const at::Tensor values = numbers({kExperts * kStride}, dtype, 7) * 0.3;
  const at::Tensor grads = at::full({kExperts * kStride}, 0.5F);
  const auto parameter_of = [&](at::IntArrayRef shape, std::int64_t offset) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    if (shape.size() == 3) strides[1] = shape[2];
    strides[0] = kStride;
    return Parameter{values.as_strided(shape, strides, offset), grads.as_strided(shape, strides, offset)};
  };
  return {parameter_of({kExperts, 2 * kInner, kHidden}, 0),
          parameter_of({kExperts, kHidden, kInner}, 2 * kMatrix),
          parameter_of({kExperts, 2 * kInner}, 3 * kMatrix),
          parameter_of({kExperts, kHidden}, 3 * kMatrix + 2 * kInner)};
}

constexpr Gating kLimitedGates{0.8F, 1.702F}, kLimitedInTurn{0.8F, 1.702F, /*interleaved=*/true},
    kLimitedSilus{.limit = 0.8F, .clamp = Clamp::kSilu};

ExpertParameters limited(const Parameters& p, const Gating& gating = kLimitedGates) {
  return {p[0], p[1], nullptr, p[2], p[3], gating};
}

/// transformers' GptOssExperts, whose gate and up are interleaved, or the same with halves; or Step3p7Experts.
at::Tensor limited_formula(const Tensors& in, const Tensors& p, const at::Tensor& experts,
                           const Gating& gating) {
  at::Tensor sum = at::zeros_like(in[0]);
  for (std::int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor joint = at::mm(in[0], p[0][e].t()) + p[2][e];
    const auto part = [&](std::int64_t i) {
      return gating.interleaved ? joint.slice(1, i, 2 * kInner, 2) : joint.narrow(1, i * kInner, kInner);
    };
    const at::Tensor gate = part(0).clamp_max(0.8), up = part(1).clamp(-0.8, 0.8);
    const at::Tensor inner = gating.clamp == Clamp::kSilu ? at::silu(part(0)).clamp_max(0.8) * up
                                                          : (up + 1) * gate * at::sigmoid(gate * 1.702);
    const at::Tensor output = at::mm(inner, p[1][e].t()) + p[3][e];
    sum = sum + output * (in[1] * experts.eq(e).to(in[1].scalar_type())).sum(1, true);
  }
  return sum;
}

// Numbers that lie at a limit but for rounding have a gradient or none: none of these do.
TEST(Experts, have_biases_and_numbers_that_are_cut_off) {
  static test::NoExchange all_here;
  // 43 tokens are rows of a product of many; 3 are few, as in answers.
  for (const std::int64_t tokens : {3, 43})
    for (const Gating& gating : {kLimitedGates, kLimitedInTurn, kLimitedSilus}) {
      const at::Tensor chosen = two_choices(tokens);
      expect_matches(
          [&](const Tensors& in, const Parameters& p) {
            return experts(in[0], limited(p, gating), {chosen, in[1].to(at::kFloat), {}}, all_here);
          },
          [&](const Tensors& in, const Tensors& p) { return limited_formula(in, p, chosen, gating); },
          {numbers({tokens, kHidden}), numbers({tokens, 2}, at::kFloat, 2).abs() + 0.1},
          laid_out_with_biases(at::kFloat));
    }
}

/// Output, gradients of tokens and weights, and those of the parameters of two experts of 700 columns.
Tensors output_and_gradients(const Parameters& p, const Gating& gating, at::ScalarType dtype) {
  static test::NoExchange all_here;
  const at::Tensor x = numbers({43, 16}, dtype).requires_grad_(),
                   weights = (numbers({43, 2}, at::kFloat, 2).abs() + 0.1).requires_grad_(),
                   chosen = at::arange(2, at::kLong).expand({43, 2}).contiguous();
  const at::Tensor out =
      experts(x, {p[0], p[1], nullptr, p[2], p[3], gating}, {chosen, weights, {}}, all_here);
  out.backward(numbers({43, 16}, dtype, 5));
  Tensors found{out.detach(), x.grad(), weights.grad()};
  for (const Parameter& parameter : p) found.push_back(parameter.grad);
  return found;
}

TEST(Experts, with_gate_and_up_in_turn_are_those_of_halves_with_rows_in_another_order) {
  constexpr std::int64_t kWide = 700;
  const at::Tensor order = at::arange(2 * kWide, at::kLong).view({2, kWide}).t().reshape({-1});
  for (const at::ScalarType dtype : kDTypes)
    for (const float limit : {0.0F, 0.8F}) {
      const auto parameter = [&](at::IntArrayRef shape, int seed) {
        return Parameter{numbers(shape, dtype, seed) * 0.3, at::zeros(shape)};
      };
      const Parameters halves{parameter({2, 2 * kWide, 16}, 7), parameter({2, 16, kWide}, 8),
                              parameter({2, 2 * kWide}, 9), parameter({2, 16}, 10)};
      Parameters in_turn = halves;
      for (const std::size_t i : {0, 2}) in_turn[i].value = halves[i].value.index_select(1, order);
      for (Parameter& each : in_turn) each.grad = at::zeros_like(each.grad);
      Tensors expected = output_and_gradients(halves, {limit, 1.702F}, dtype);
      const Tensors found = output_and_gradients(in_turn, {limit, 1.702F, true}, dtype);
      for (const std::size_t i : {3, 5}) expected[i] = expected[i].index_select(1, order);
      for (std::size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i].to(at::kDouble));
    }
}

TEST(Experts, with_biases_round_them_to_the_dtype) {
  static test::NoExchange all_here;
  const Parameters p = laid_out_with_biases(at::kBFloat16);
  const at::Tensor chosen = two_choices(43), x = numbers({43, kHidden}, at::kBFloat16);
  const at::Tensor weights = numbers({43, 2}, at::kBFloat16, 2).abs() + 0.1;
  Tensors wide;
  for (const Parameter& parameter : p) wide.push_back(parameter.value.to(at::kDouble));
  for (const Gating& gating : {kLimitedGates, kLimitedInTurn, kLimitedSilus})
    expect_close(experts(x, limited(p, gating), {chosen, weights.to(at::kFloat), {}}, all_here),
                 limited_formula({x.to(at::kDouble), weights.to(at::kDouble)}, wide, chosen, gating));
}

TEST(Experts, in_turn_have_their_biases_complete_before_the_next_one) {
  static test::NoExchange all_here;
  Parameters p = laid_out_with_biases(at::kFloat);
  std::vector<GradientInitialized> written(4, GradientInitialized(kExperts));
  for (std::size_t i = 0; i < p.size(); ++i) {
    written[i].set_all(Written::kNo);
    p[i].written = &written[i];
  }
  std::vector<std::int64_t> done;
  const ExpertCompletion completion = [&](std::int64_t expert) {
    done.push_back(expert);
    for (const std::size_t bias : {2, 3})
      EXPECT_EQ(p[bias].grad[expert].count_nonzero().item<std::int64_t>() == 0, expert != 2) << expert;
  };
  ExpertParameters parameters = limited(p);
  parameters.completion = &completion;
  const at::Tensor x = numbers({4, kHidden}).requires_grad_();
  experts(x, parameters, {at::full({4, 1}, 2, at::kLong), at::ones({4, 1}), {}}, all_here).sum().backward();
  EXPECT_EQ(done, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Experts, may_have_no_tokens) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches_for(at::tensor({1, 3, 3, 1, 3, 1}, at::kLong).view({3, 2}), dtype);
}

TEST(Experts, may_all_but_one_be_idle) {
  for (const at::ScalarType dtype : kDTypes) expect_matches_for(at::full({9, 1}, 2, at::kLong), dtype);
}

TEST(Experts, leave_the_gradients_of_idle_experts_alone) {
  const Parameters p = laid_out(at::kFloat);
  const at::Tensor x = numbers({4, kHidden}).requires_grad_();
  run(x, p, {at::full({4, 1}, 2, at::kLong), at::ones({4, 1}), {}}).sum().backward();
  for (const Parameter& parameter : p) {
    EXPECT_TRUE(parameter.grad[1].eq(0.5F).all().item<bool>());
    EXPECT_FALSE(parameter.grad[2].eq(0.5F).all().item<bool>());
  }
}

TEST(Experts, replace_gradients_that_nobody_has_written_and_add_to_them_then) {
  const Parameters expected = laid_out(at::kFloat);
  const Parameters found = laid_out(at::kFloat);
  GradientInitialized gate_up(kExperts), down(kExperts);
  for (GradientInitialized* written : {&gate_up, &down}) written->set_all(Written::kNo);
  const at::Tensor chosen = at::full({600, 1}, 2, at::kLong);
  const at::Tensor x = numbers({600, kHidden}).requires_grad_();
  for (int pass = 0; pass < 2; ++pass) {
    run(x, expected, {chosen, at::ones({600, 1}), {}}).sum().backward();
    run(x, {{found[0].value, found[0].grad, &gate_up}, {found[1].value, found[1].grad, &down}},
        {chosen, at::ones({600, 1}), {}})
        .sum()
        .backward();
    for (std::size_t i = 0; i < found.size(); ++i) {
      expect_close(found[i].grad[2] + 0.5, expected[i].grad[2]);
      EXPECT_TRUE(found[i].grad[1].eq(0.5F).all().item<bool>()) << "left alone";
    }
  }
}

TEST(Experts, do_not_depend_on_the_number_of_threads) {
  const at::Tensor chosen = two_choices(300);
  const at::Tensor weights = numbers({300, 2}, at::kFloat, 3).abs();
  Tensors outputs;
  for (const int count : {1, 2}) {
    const Threads threads(count);
    const Parameters p = laid_out(at::kBFloat16);
    const at::Tensor x = numbers({300, kHidden}, at::kBFloat16).requires_grad_();
    outputs.push_back(run(x, p, {chosen, weights, {}}));
    outputs.back().sum().backward();
    outputs.push_back(x.grad());
  }
  EXPECT_TRUE(outputs[0].equal(outputs[2]));
  EXPECT_TRUE(outputs[1].equal(outputs[3]));
}

TEST(Experts, of_few_rows_side_by_side_have_the_bits_of_a_token_by_itself) {
  // Each of 33 tokens chooses expert 0, which then has too many rows, or expert 1 to 4, and one more.
  const at::Tensor first = at::arange(33, at::kLong).remainder(3).eq(0).to(at::kLong),
                   chosen = at::stack({first * (at::arange(33, at::kLong).remainder(4) + 1),
                                       at::arange(33, at::kLong).remainder(kExperts)},
                                      1);
  for (const at::ScalarType dtype : kDTypes) {
    const Parameters p = laid_out_with_biases(dtype);
    const at::Tensor x = numbers({33, kHidden}, dtype), weights = numbers({33, 2}, at::kFloat, 3).abs();
    static test::NoExchange all_here;
    const auto outputs = [&](std::int64_t begin, std::int64_t count) {
      return experts(x.narrow(0, begin, count), limited(p),
                     {chosen.narrow(0, begin, count), weights.narrow(0, begin, count), {}}, all_here);
    };
    for (const std::int64_t together : {2, 5, 12})
      for (const int threads : {1, 3}) {
        const Threads some(threads);
        const at::Tensor all = outputs(0, together);
        for (std::int64_t token = 0; token < together; ++token)
          EXPECT_TRUE(all[token].equal(outputs(token, 1)[0])) << together << " tokens, token " << token;
      }
    // Beside an expert of many rows, whose products have other bits.
    const at::Tensor all = outputs(0, 33), one_by_one = at::empty_like(all);
    for (std::int64_t token = 0; token < 33; ++token) one_by_one[token].copy_(outputs(token, 1)[0]);
    expect_close(all, one_by_one, dtype == at::kFloat ? 1e-5 : 2e-2);
  }
}

TEST(ExpertRows, join_blocks_of_few_rows_beside_larger_ones) {
  // Experts 0, 1 and 3 have 2, 1 and 15 rows; expert 2 has 16.
  std::vector<std::int32_t> chosen(2, 0);
  chosen.push_back(1);
  chosen.insert(chosen.end(), kFewRows, 2);
  chosen.insert(chosen.end(), kFewRows - 1, 3);
  const std::array<Range, 1> all{Range{0, std::ssize(chosen)}};
  const at::Tensor choices = at::tensor(chosen, at::kInt).view({-1, 1});
  const Threads two(2);
  const ExpertRows apart(choices, 0, 4, all, Join::kOnDevices), joined(choices, 0, 4, all, Join::kFewRowsToo);
  ASSERT_EQ(apart.blocks().size(), 4U);
  ASSERT_EQ(joined.blocks().size(), 3U);
  const RowBlock& pair = joined.blocks()[0];
  ASSERT_EQ(pair.parts.size(), 2U);
  EXPECT_EQ(pair.count, 3);
  EXPECT_EQ(pair.padded, 3);
  EXPECT_EQ(pair.parts[1].expert, 1);
  EXPECT_EQ(pair.parts[1].begin, 2);
  EXPECT_EQ(joined.blocks()[1].parts.front().expert, 2);
  EXPECT_EQ(joined.blocks()[2].count, kFewRows - 1);
}

/// Writes down when it is called.
class RecordedExchange final : public TokenExchange {
 public:
  [[nodiscard]] std::int64_t first_expert() const override { return 0; }
  void begin_dispatch(const ExpertTokens& own) override {
    calls.emplace_back("begin");
    inner_.begin_dispatch(own);
  }
  [[nodiscard]] ArrivingTokens arriving() override { return inner_.arriving(); }
  void finish_dispatch() override {
    calls.emplace_back("finish");
    inner_.finish_dispatch();
  }
  [[nodiscard]] at::Tensor sums(std::int64_t rows, std::int64_t width) override {
    return inner_.sums(rows, width);
  }
  [[nodiscard]] at::Tensor combine(const at::Tensor& sums) override { return inner_.combine(sums); }
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) override {
    return inner_.combine(sums, d_weights);
  }

  std::vector<std::string> calls;

 private:
  test::NoExchange inner_;
};

TEST(Experts, leave_time_for_other_work_while_tokens_travel_forward_and_backward) {
  const Parameters p = laid_out(at::kFloat);
  RecordedExchange exchange;
  const at::Tensor x = numbers({6, kHidden}).requires_grad_();
  const Routing routing{two_choices(6), at::ones({6, 2}).requires_grad_(), {}};
  Experts work(x, {p[0], p[1]}, routing, exchange);
  const at::Tensor other = x * 2;
  exchange.calls.emplace_back("other");
  other.register_hook([&](const at::Tensor&) { exchange.calls.emplace_back("gradient of other"); });
  const at::Tensor out = work.output() + other;
  const at::Tensor alone = run(x.detach(), p, routing).detach();
  expect_close(out.detach() - 2 * x.detach(), alone);
  out.sum().backward();
  EXPECT_EQ(exchange.calls,
            (std::vector<std::string>{"begin", "other", "finish", "begin", "gradient of other", "finish"}));
}

TEST(Experts, that_know_the_gradient_of_their_output_send_it_at_once_and_have_no_forward) {
  const at::Tensor d_out = numbers({6, kHidden}, at::kFloat, 4);
  std::vector<Tensors> grads;
  for (const at::Tensor& known : {at::Tensor(), d_out}) {
    const Parameters p = laid_out(at::kFloat);
    RecordedExchange exchange;
    const at::Tensor x = numbers({6, kHidden}).requires_grad_();
    const at::Tensor weights = at::full({6, 2}, 0.5).requires_grad_();
    const at::Tensor out = Experts(x, {p[0], p[1]}, {two_choices(6), weights, {}}, exchange, known).output();
    exchange.calls.emplace_back("other");
    out.backward(d_out);
    grads.push_back({x.grad(), weights.grad(), p[0].grad, p[1].grad});
    if (known.defined()) {
      EXPECT_EQ(out.count_nonzero().item<std::int64_t>(), 0);
      EXPECT_EQ(exchange.calls, (std::vector<std::string>{"begin", "other", "finish"}));
    }
  }
  for (std::size_t i = 0; i < grads[0].size(); ++i) EXPECT_TRUE(grads[0][i].equal(grads[1][i])) << i;
}

/// Only the middle third of the tokens are there before finish_dispatch().
class SlowExchange final : public TokenExchange {
 public:
  [[nodiscard]] std::int64_t first_expert() const override { return 0; }
  void begin_dispatch(const ExpertTokens& own) override { all_ = own; }
  [[nodiscard]] ArrivingTokens arriving() override {
    const std::int64_t third = all_.x.size(0) / 3;
    here_ = {all_.x.clone(), all_.d_out.defined() ? all_.d_out.clone() : at::Tensor(), all_.experts.clone(),
             all_.weights.clone()};
    for (const std::int64_t begin : {std::int64_t{0}, 2 * third})
      for (const at::Tensor& missing : {here_.x, here_.d_out, here_.weights})
        if (missing.defined()) missing.narrow(0, begin, third).fill_(std::nan(""));
    return {here_, {third, 2 * third}};
  }
  void finish_dispatch() override {
    if (sums_.count_nonzero().item<std::int64_t>() > 0) ++begun_before;
    here_.x.copy_(all_.x);
    here_.weights.copy_(all_.weights);
    if (all_.d_out.defined()) here_.d_out.copy_(all_.d_out);
  }
  [[nodiscard]] at::Tensor sums(std::int64_t rows, std::int64_t width) override {
    return sums_ = at::zeros({rows, width}, at::kFloat);
  }
  [[nodiscard]] at::Tensor combine(const at::Tensor& sums) override { return sums.clone(); }
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) override {
    return {sums.clone(), d_weights};
  }

  int begun_before = 0;  ///< passes

 private:
  ExpertTokens all_, here_;
  at::Tensor sums_;
};

TEST(Experts, begin_with_tokens_that_are_there_if_they_are_many) {
  for (const std::int64_t tokens : {30, 3 * 1200}) {
    std::vector<Tensors> results;
    test::NoExchange at_once;
    SlowExchange slow;
    for (TokenExchange* exchange :
         {static_cast<TokenExchange*>(&at_once), static_cast<TokenExchange*>(&slow)}) {
      const Parameters p = laid_out(at::kFloat);
      const at::Tensor x = numbers({tokens, kHidden}).requires_grad_();
      const at::Tensor weights = numbers({tokens, 2}, at::kFloat, 3).abs().requires_grad_();
      const at::Tensor out = experts(x, {p[0], p[1]}, {two_choices(tokens), weights, {}}, *exchange);
      out.backward(numbers({tokens, kHidden}, at::kFloat, 4));
      results.push_back({out.detach(), x.grad(), weights.grad(), p[0].grad, p[1].grad});
    }
    for (std::size_t i = 0; i < results[0].size(); ++i) expect_close(results[1][i], results[0][i]);
    EXPECT_EQ(slow.begun_before, tokens > 30 ? 2 : 0) << "forward and backward";
  }
}

TEST(Experts, take_no_tokens_at_all) {
  const Parameters p = laid_out(at::kFloat);
  const at::Tensor x = at::empty({0, kHidden}).requires_grad_();
  const at::Tensor y = run(x, p, {at::empty({0, 2}, at::kLong), at::empty({0, 2}), {}});
  y.sum().backward();
  EXPECT_EQ(y.sizes(), x.sizes());
}

}  // namespace
}  // namespace sluice::ops
