// Each function of a processor on the device against this processor's, on the same inputs.
#include "base/compute_sizes.hpp"
#include "ops/cpu/attention/attention.hpp"
#include "ops/cpu/attention/cached_attention.hpp"
#include "ops/cpu/causal_conv.hpp"
#include "ops/cpu/dropout_rows.hpp"
#include "ops/cpu/expert_rows.hpp"
#include "ops/cpu/loss_rows.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/norm_rows.hpp"
#include "ops/cpu/rotary_rows.hpp"
#include "ops/cpu/router_rows.hpp"
#include "ops/cpu/swiglu_rows.hpp"
#include "ops/cpu/token_ids.hpp"
#include "ops/cpu/token_rows.hpp"
#include "ops/device/processor.hpp"
#include "ops/loss.hpp"
#include "ops/runtime/tensor_device.hpp"
#include "other_device/on_device.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace sluice::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The largest difference that rounding makes, of a number and of what it is compared with.
double tolerance(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 2e-2 : 2e-6; }

using test::on_device;

void expect_near(const at::Tensor& found, const at::Tensor& expected, const char* what, double factor = 1) {
  const at::Tensor here = found.cpu();
  ASSERT_EQ(here.sizes(), expected.sizes()) << what;
  ASSERT_EQ(here.scalar_type(), expected.scalar_type()) << what;
  const double allowed = factor * tolerance(expected.scalar_type());
  const at::Tensor wrong = (here.to(at::kDouble) - expected.to(at::kDouble)).abs() >
                           allowed * (1 + expected.to(at::kDouble).abs());
  // Both may be infinite or no number.
  const at::Tensor same = here.eq(expected).logical_or(here.ne(here).logical_and(expected.ne(expected)));
  EXPECT_FALSE(wrong.logical_or(here.ne(here)).logical_and(same.logical_not()).any().item<bool>())
      << what << "\n"
      << here << "\n"
      << expected;
}

/// Runs `cpu` on the arguments and `device` on copies of them; then all arguments, some of which were
/// written, and results must be the same.
void expect_same(const Tensors& arguments, const std::function<Tensors(const Tensors&)>& cpu,
                 const std::function<Tensors(const Tensors&)>& device, double factor = 1) {
  Tensors there;
  for (const at::Tensor& x : arguments) there.push_back(on_device(x));
  const Tensors expected = cpu(arguments), found = device(there);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].defined())
      expect_near(there[i], arguments[i], ("argument " + std::to_string(i)).c_str(), factor);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_near(found[i], expected[i], ("result " + std::to_string(i)).c_str(), factor);
}

// The same statements for both processors, about the tensors `x` of a test.
#define SLUICE_BOTH(...)                 \
  [&](const Tensors& x) -> Tensors {     \
    namespace processor = cpu;           \
    __VA_ARGS__;                         \
    return {};                           \
  },                                     \
      [&](const Tensors& x) -> Tensors { \
        namespace processor = device;    \
        __VA_ARGS__;                     \
        return {};                       \
      }

class OtherDeviceSeam : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(7); }
  [[nodiscard]] static at::Tensor numbers(at::IntArrayRef sizes) { return at::randn(sizes).to(GetParam()); }
  [[nodiscard]] static at::Tensor floats(at::IntArrayRef sizes) { return at::randn(sizes); }
};

INSTANTIATE_TEST_SUITE_P(types, OtherDeviceSeam, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) { return std::string(at::toString(type.param)); });

/// Packed documents of two sequences of 40 tokens.
at::Tensor document_begins() {
  const at::Tensor begins = at::zeros({2, 40}, at::kByte);
  for (const std::int64_t place : {5, 6, 33}) begins[0][place] = 1;
  begins[1][17] = 1;
  return begins;
}

at::Tensor document_firsts() {
  const at::Tensor first = at::empty({2, 40}, at::kLong);
  cpu::find_document_begins(document_begins(), first);
  return first;
}

TEST_P(OtherDeviceSeam, matmul) {
  for (const Into into : {Into::kReplace, Into::kAdd}) {
    expect_same({numbers({5, 3}), numbers({5, 7}), numbers({7, 3})},
                SLUICE_BOTH(processor::matmul(x[0], x[1], x[2], into)), 4);
    expect_same({floats({5, 3}), numbers({7, 5}), numbers({7, 3})},
                SLUICE_BOTH(processor::matmul(x[0], x[1].t(), x[2], into)), 4);
    expect_same({floats({5, 3}), numbers({5, 0}), numbers({0, 3})},
                SLUICE_BOTH(processor::matmul(x[0], x[1], x[2], into)));
  }
  expect_same(
      {numbers({5, 7}), numbers({3, 7})},
      [](const Tensors& x) { return Tensors{cpu::matmul(x[0], x[1].t())}; },
      [](const Tensors& x) { return Tensors{device::matmul(x[0], x[1].t())}; }, 4);
}

TEST_P(OtherDeviceSeam, attention) {
  for (const at::Tensor& first : {at::Tensor(), document_firsts()}) {
    const at::Tensor sinks = first.defined() ? floats({6}) : at::Tensor();
    const at::Tensor q = numbers({2, 40, 6, 8}), k = numbers({2, 40, 2, 8}), v = numbers({2, 40, 2, 8});
    const AttentionInputs in{q, k, v, 0.3, {first}, sinks};
    const AttentionInputs in_there{on_device(q), on_device(k),       on_device(v),
                                   0.3,          {on_device(first)}, on_device(sinks)};
    const AttentionRecord made{at::empty_like(q), at::empty({2, 6, 40})};
    const AttentionRecord made_there{on_device(at::empty_like(q)), on_device(at::empty({2, 6, 40}))};
    cpu::attention(in, made);
    device::attention(in_there, made_there);
    expect_near(made_there.out, made.out, "out", 4);

    const at::Tensor up = numbers({2, 40, 6, 8});
    const at::Tensor d_sinks = sinks.defined() ? floats({6}) : at::Tensor();
    const AttentionGradients here{at::empty_like(q), at::empty_like(k), at::empty_like(v), d_sinks};
    const AttentionGradients there{on_device(here.q), on_device(here.k), on_device(here.v),
                                   on_device(d_sinks)};
    cpu::attention_backward(in, made, up, here);
    device::attention_backward(in_there, made_there, on_device(up), there);
    expect_near(there.q, here.q, "d_q", 4);
    expect_near(there.k, here.k, "d_k", 4);
    expect_near(there.v, here.v, "d_v", 4);
    // A float32 sum of what was made in the dtype.
    if (sinks.defined())
      expect_near(there.sinks, here.sinks, "d_sinks", 8 * tolerance(GetParam()) / tolerance(at::kFloat));
  }
}

TEST_P(OtherDeviceSeam, attention_of_more_queries_than_one_block) {
  const at::Tensor q = numbers({1, 1100, 2, 8}), k = numbers({1, 1100, 1, 8}), v = numbers({1, 1100, 1, 8});
  expect_same(
      {q, k, v, at::empty_like(q)},
      [](const Tensors& x) {
        cpu::attention({x[0], x[1], x[2], 0.3}, {x[3], at::empty({1, 2, 1100})});
        return Tensors{};
      },
      [](const Tensors& x) {
        device::attention({x[0], x[1], x[2], 0.3}, {x[3], on_device(at::empty({1, 2, 1100}))});
        return Tensors{};
      },
      4);
}

TEST_P(OtherDeviceSeam, cached_attention) {
  for (const std::int64_t window : {0, 4})
    for (const std::int64_t queries : {1, 3})
      for (const std::int64_t value_width : {8, 5})
        expect_same({numbers({queries, 6, 8}), numbers({11, 2, 8}), numbers({11, 2, value_width}),
                     numbers({queries, 6, value_width}), window > 0 ? floats({6}) : at::Tensor()},
                    SLUICE_BOTH(processor::cached_attention(x[0], x[1], x[2], 0.3, window, x[4], x[3])), 2);
}

TEST_P(OtherDeviceSeam, norm_rows) {
  for (const NormKind kind :
       {NormKind::kFactor, NormKind::kZeroCentred, NormKind::kUnrounded, NormKind::kLayerNorm}) {
    const at::Tensor in = numbers({2, 3, 16}), weight = numbers({16}), scales = at::empty({6});
    expect_same({in, weight, at::empty_like(in), scales},
                SLUICE_BOTH(processor::norm_rows(x[0], x[1], 1e-5, kind, x[2], x[3])));
    expect_same({in, weight, scales, numbers({2, 3, 16}), at::empty_like(in), floats({16})},
                SLUICE_BOTH(processor::norm_rows_backward(x[0], x[1], kind, x[2], x[3], x[4], x[5])), 4);
    expect_same({in, weight, scales, numbers({2, 3, 16}), at::empty_like(in), at::Tensor()},
                SLUICE_BOTH(processor::norm_rows_backward(x[0], x[1], kind, x[2], x[3], x[4], x[5])), 4);
  }
}

TEST_P(OtherDeviceSeam, rotate_heads) {
  const at::Tensor in = numbers({2, 5, 3, 10});
  for (const Turn turn : {Turn::kForward, Turn::kBack})
    for (const RotaryLayout layout : {RotaryLayout::kHalves, RotaryLayout::kInterleaved})
      expect_same({in, floats({9, 4}), floats({9, 4}), at::empty_like(in)},
                  SLUICE_BOTH(processor::rotate_heads(x[0], {x[1], x[2], layout}, turn, x[3])));
}

TEST_P(OtherDeviceSeam, swiglu_rows) {
  const at::Tensor joint = numbers({5, 14});
  expect_same({joint, at::empty({5, 7}, joint.options())},
              SLUICE_BOTH(processor::swiglu_rows(x[0].narrow(1, 0, 7), x[0].narrow(1, 7, 7), x[1])));
  expect_same(
      {joint, at::empty({5, 7}, joint.options())},
      SLUICE_BOTH(processor::swiglu_rows(x[0].narrow(1, 0, 7), x[0].narrow(1, 7, 7), x[1], {0.5F, 1.7F})));
  constexpr Gating kLimitedSilu{.limit = 0.3F, .clamp = Clamp::kSilu};
  expect_same(
      {joint, at::empty({5, 7}, joint.options())},
      SLUICE_BOTH(processor::swiglu_rows(x[0].narrow(1, 0, 7), x[0].narrow(1, 7, 7), x[1], kLimitedSilu)));
  expect_same(
      {joint, numbers({5, 7}), at::empty_like(joint)},
      SLUICE_BOTH(processor::swiglu_rows_backward(x[0].narrow(1, 0, 7), x[0].narrow(1, 7, 7), x[1],
                                                  x[2].narrow(1, 0, 7), x[2].narrow(1, 7, 7), kLimitedSilu)));
  expect_same({joint, numbers({5, 7}), at::empty_like(joint)},
              SLUICE_BOTH(processor::swiglu_rows_backward(x[0].narrow(1, 0, 7), x[0].narrow(1, 7, 7), x[1],
                                                          x[2].narrow(1, 0, 7), x[2].narrow(1, 7, 7))));
}

TEST_P(OtherDeviceSeam, dropout_rows) {
  const RandomStream draws(3, "draws");
  const at::Tensor in = numbers({7, 30}), out = at::empty_like(in);
  expect_same({in, out}, SLUICE_BOTH(processor::dropout_rows(x[0], 0.3, draws, 5, x[1])));
  const std::int64_t dropped = out.eq(0).sum().item<std::int64_t>();
  EXPECT_GT(dropped, 7 * 30 / 5);
  EXPECT_LT(dropped, 7 * 30 * 2 / 5);
}

TEST_P(OtherDeviceSeam, causal_conv) {
  for (const ConvActivation activation : {ConvActivation::kSilu, ConvActivation::kNone})
    for (const at::Tensor& first : {at::Tensor(), document_firsts()}) {
      const at::Tensor in = numbers({2, 40, 6}), weight = numbers({6, 1, 4}), bias = numbers({6});
      expect_same({in, weight, first, at::empty_like(in), bias},
                  SLUICE_BOTH(processor::causal_conv(x[0], x[1], x[4], activation, {x[2]}, x[3])), 2);
      expect_same(
          {in, weight, first, numbers({2, 40, 6}), at::empty_like(in), bias},
          [&](const Tensors& t) {
            const auto [filters, biases] =
                cpu::causal_conv_backward(t[0], t[1], t[5], activation, {t[2]}, t[3], t[4]);
            return Tensors{filters, biases};
          },
          [&](const Tensors& t) {
            const auto [filters, biases] =
                device::causal_conv_backward(t[0], t[1], t[5], activation, {t[2]}, t[3], t[4]);
            return Tensors{filters, biases};
          },
          8);
    }
  const at::Tensor short_one = numbers({1, 2, 6});
  expect_same({short_one, numbers({6, 1, 4}), at::empty_like(short_one)},
              SLUICE_BOTH(processor::causal_conv(x[0], x[1], {}, ConvActivation::kSilu, {}, x[2])));
}

/// Logits with equal ones, and rows that are broken.
at::Tensor hard_logits() {
  at::Tensor logits = at::randn({9, 6});
  logits[1].fill_(0.5);
  logits[2].copy_(at::tensor({1.0F, 3.0F, 3.0F, 2.0F, 3.0F, -1.0F}));
  logits[3][2] = std::numeric_limits<float>::quiet_NaN();
  logits[4][0] = std::numeric_limits<float>::infinity();
  return logits;
}

/// A softmax with and without normalised weights, and in some groups; corrected sigmoids in all groups and in
/// some; a corrected softmax whose weights are normalised by a sum of at least so much; and sigmoids chosen by
/// logits.
std::vector<RouterOptions> router_forms() {
  RouterOptions sigmoids{.experts_per_token = 3,
                         .score = RouterScore::kSigmoid,
                         .epsilon = 1e-20F,
                         .scale = 1.5F,
                         .correction_bias = at::tensor({0.2F, -0.4F, 0.1F, -0.3F, -0.6F, 0.0F})};
  RouterOptions grouped = sigmoids;
  grouped.groups = 3;
  grouped.chosen_groups = 2;
  grouped.normalize_weights = false;
  RouterOptions at_least{
      .experts_per_token = 3, .least_sum = 0.6F, .correction_bias = sigmoids.correction_bias.unsqueeze(0)};
  return {{.experts_per_token = 3, .normalize_weights = false},
          {.experts_per_token = 3},
          sigmoids,
          grouped,
          at_least,
          {.experts_per_token = 3, .score = RouterScore::kSigmoid, .chooses_by_logits = true},
          {.experts_per_token = 3,
           .normalize_weights = false,
           .groups = 2,
           .chosen_groups = 1,
           .scores_per_group = 1}};
}

RouterOptions with_bias(RouterOptions options, const at::Tensor& bias) {
  options.correction_bias = bias;
  return options;
}

TEST_P(OtherDeviceSeam, router_rows) {
  for (const RouterOptions& options : router_forms()) {
    const at::Tensor logits = hard_logits(), chosen = at::empty({9, 3}, at::kLong),
                     weights = at::empty({9, 3});
    expect_same(
        {logits, chosen, weights, options.correction_bias},
        SLUICE_BOTH(processor::router_rows(x[0], Choice::kMake, with_bias(options, x[3]), x[1], x[2])));
    expect_same(
        {hard_logits(), chosen, weights, options.correction_bias},
        SLUICE_BOTH(processor::router_rows(x[0], Choice::kRepeat, with_bias(options, x[3]), x[1], x[2])));
    const std::int64_t terms = GetParam() == at::kBFloat16 ? 2 : 1;
    for (const at::Tensor& common : {at::Tensor(), at::randn({6})})
      for (const at::Tensor& counted : {at::Tensor(), at::arange(9).lt(7)})
        expect_same({logits, chosen, weights, floats({9, 3}), common, counted,
                     at::empty({9, 6 * terms}, GetParam()), hard_logits()},
                    SLUICE_BOTH(processor::router_rows_backward(x[0], x[7], x[1], x[2], options, x[3],
                                                                {x[4], x[5], 0.3F}, x[6])));
  }
}

/// Rows of the experts 1 and 2 of four, of which each of seven tokens chooses two, and one is left out.
ExpertRows rows_of_two_experts(const at::Tensor& chosen) {
  const std::array<Range, 2> tokens{Range{0, 3}, Range{4, 7}};
  return {chosen, 1, 2, tokens, Join::kOnDevices};
}
at::Tensor choices_of_experts() {
  return at::tensor({0, 1, 1, 2, 2, 1, 3, 0, 1, 2, 2, 3, 1, 0}, at::kInt).view({7, 2});
}

/// The rows of one block of those that `rows` has for all, with zeros behind them.
at::Tensor rows_of_block(const at::Tensor& rows, std::int64_t first, const RowBlock& block) {
  at::Tensor out = at::zeros({block.padded, rows.size(1)}, rows.options());
  out.narrow(0, 0, block.count).copy_(rows.narrow(0, first, block.count));
  return out;
}

TEST_P(OtherDeviceSeam, rows_of_experts_in_one_block) {
  const ExpertRows here = rows_of_two_experts(choices_of_experts()),
                   there = rows_of_two_experts(on_device(choices_of_experts()));
  ASSERT_EQ(there.blocks().size(), 1U);
  const RowBlock& all = there.blocks().front();
  ASSERT_EQ(all.count, here.count());
  ASSERT_EQ(all.parts.size(), here.blocks().size());
  EXPECT_TRUE(all.ends.cpu().equal(at::tensor({5, 9}, at::kInt)));
  const at::Tensor x = numbers({7, 5}), weights = floats({7, 2}), rows = numbers({9, 5}),
                   matrices = numbers({2, 5, 3}), gate_up = numbers({9, 8}), d = numbers({9, 4});
  const at::Tensor taken = at::empty_like(rows), products = at::empty({9, 3}, rows.options()),
                   sums = floats({7, 5}), weighted = floats({7, 5}), d_weights = at::zeros({7, 2});
  const at::Tensor taken_there = on_device(taken), products_there = on_device(products),
                   sums_there = on_device(sums), weighted_there = on_device(weighted),
                   d_weights_there = on_device(d_weights), gate_up_there = on_device(gate_up),
                   d_there = on_device(d);

  device::take_rows(on_device(x), all, 2, taken_there);
  device::multiply_groups(products_there, on_device(rows), all, on_device(matrices));
  device::add_rows(on_device(rows), all, 2, at::Tensor(), sums_there);
  device::add_rows(on_device(rows), all, 2, on_device(weights), weighted_there);
  device::weighted_swiglu_backward(gate_up_there.narrow(1, 0, 4), gate_up_there.narrow(1, 4, 4), d_there, all,
                                   on_device(weights), d_weights_there);
  std::int64_t first = 0;
  for (const RowBlock& block : here.blocks()) {
    const ExpertPart& part = block.parts.front();
    at::Tensor own = at::empty({block.padded, 5}, rows.options());
    cpu::take_rows(x, block, 2, own);
    taken.narrow(0, first, block.count).copy_(own.narrow(0, 0, block.count));
    own = rows_of_block(rows, first, block);
    products.narrow(0, first, block.count)
        .copy_(cpu::matmul(own, matrices[part.expert]).narrow(0, 0, block.count));
    cpu::add_rows(own, block, 2, at::Tensor(), sums);
    cpu::add_rows(own, block, 2, weights, weighted);
    const at::Tensor both = rows_of_block(gate_up, first, block), up = rows_of_block(d, first, block);
    cpu::weighted_swiglu_backward(both.narrow(1, 0, 4), both.narrow(1, 4, 4), up, block, weights, d_weights);
    gate_up.narrow(0, first, block.count).copy_(both.narrow(0, 0, block.count));
    d.narrow(0, first, block.count).copy_(up.narrow(0, 0, block.count));
    first += block.count;
  }
  expect_near(taken_there, taken, "rows taken");
  expect_near(products_there, products, "products", 4);
  expect_near(sums_there, sums, "sums");
  expect_near(weighted_there, weighted, "weighted sums");
  expect_near(gate_up_there, gate_up, "gradients of gate and up", 2);
  expect_near(d_there, d, "weighted activation", 2);
  expect_near(d_weights_there, d_weights, "gradients of weights", 2);
}

/// Columns of gate, or of up, of a joint matrix of both; without a gate the matrix itself.
at::Tensor part_of(const at::Tensor& joint, std::int64_t part, const Gating& gating) {
  if (!gating.has_gate()) return joint;
  const std::int64_t width = joint.size(1) / 2;
  return gating.interleaved ? joint.slice(1, part, 2 * width, 2) : joint.narrow(1, part * width, width);
}

TEST_P(OtherDeviceSeam, biases_and_activations_of_experts) {
  for (const Gating& gating :
       {Gating{0.5F, 1.7F}, Gating{0.5F, 1.7F, /*interleaved=*/true},
        Gating{.limit = 0.3F, .clamp = Clamp::kSilu}, Gating{.activation = Activation::kGeluTanh},
        Gating{.activation = Activation::kSquaredRelu}}) {
    const ExpertRows here = rows_of_two_experts(choices_of_experts()),
                     there = rows_of_two_experts(on_device(choices_of_experts()));
    const RowBlock& all = there.blocks().front();
    const at::Tensor weights = floats({7, 2}), rows = numbers({9, 8}),
                     d = numbers({9, 8 / gating.projections()}), biases = numbers({2, 8}),
                     d_biases = floats({2, 8}), d_weights = floats({7, 2});
    const at::Tensor rows_there = on_device(rows), d_there = on_device(d),
                     d_biases_there = on_device(d_biases), d_weights_there = on_device(d_weights);
    device::add_biases(rows_there, all, on_device(biases));
    for (const ExpertPart& part : all.parts) {
      device::bias_gradient(rows_there, all, part, on_device(weights), d_biases_there[part.expert]);
      device::bias_gradient(rows_there, all, part, at::Tensor(), d_biases_there[part.expert]);
    }
    const at::Tensor activations = at::empty_like(d), activations_there = on_device(activations);
    device::swiglu_rows(part_of(rows_there, 0, gating), part_of(rows_there, 1, gating), activations_there,
                        gating);
    device::weighted_swiglu_backward(part_of(rows_there, 0, gating), part_of(rows_there, 1, gating), d_there,
                                     all, on_device(weights), d_weights_there, gating);
    device::add_bias_products(rows_there, all, on_device(biases), d_weights_there);
    std::int64_t first = 0;
    for (const RowBlock& block : here.blocks()) {
      const ExpertPart& part = block.parts.front();
      const at::Tensor own = rows_of_block(rows, first, block), own_d = rows_of_block(d, first, block);
      cpu::add_biases(own, block, biases);
      EXPECT_EQ(own.narrow(0, block.count, block.padded - block.count).count_nonzero().item<std::int64_t>(),
                0);
      cpu::bias_gradient(own, block, part, weights, d_biases[part.expert]);
      cpu::bias_gradient(own, block, part, at::Tensor(), d_biases[part.expert]);
      const at::Tensor own_activations = at::empty_like(own_d);
      cpu::swiglu_rows(part_of(own, 0, gating), part_of(own, 1, gating), own_activations, gating);
      activations.narrow(0, first, block.count).copy_(own_activations.narrow(0, 0, block.count));
      cpu::weighted_swiglu_backward(part_of(own, 0, gating), part_of(own, 1, gating), own_d, block, weights,
                                    d_weights, gating);
      cpu::add_bias_products(own, block, biases, d_weights);
      rows.narrow(0, first, block.count).copy_(own.narrow(0, 0, block.count));
      d.narrow(0, first, block.count).copy_(own_d.narrow(0, 0, block.count));
      first += block.count;
    }
    expect_near(activations_there, activations, "activations", 2);
    expect_near(rows_there, rows, "gradients of gate and up", 2);
    expect_near(d_there, d, "weighted activation", 2);
    expect_near(d_biases_there, d_biases, "gradients of biases", 4);
    expect_near(d_weights_there, d_weights, "gradients of weights", 4);
  }
}

TEST(OtherDeviceSeam, rows_of_experts_in_blocks_of_bounded_size) {
  const std::int64_t tokens = kExpertGroupRows / 2 + 10;  // tokens for each of four experts
  const at::Tensor chosen = at::arange(4, at::kInt).expand({tokens, 4}).contiguous();
  const std::array<Range, 1> all{Range{0, tokens}};
  const ExpertRows rows(on_device(chosen), 0, 4, all, Join::kOnDevices);
  std::int64_t count = 0;
  std::vector<std::int64_t> of_experts(4);
  for (const RowBlock& block : rows.blocks()) {
    EXPECT_LE(block.count, kExpertGroupRows);
    EXPECT_EQ(block.ends.cpu()[3].item<int>(), block.count);
    for (const ExpertPart& part : block.parts)
      of_experts[static_cast<std::size_t>(part.expert)] += part.count;
    count += block.count;
  }
  EXPECT_EQ(count, 4 * tokens);
  EXPECT_EQ(of_experts, std::vector<std::int64_t>(4, tokens));
}

TEST_P(OtherDeviceSeam, rows_of_the_loss) {
  const at::Tensor targets = at::tensor(std::vector<std::int64_t>{3, 9, kNoTarget, 0, 12});
  const Tensors sums{at::full({5}, -HUGE_VAL, at::kFloat), at::zeros({5}, at::kDouble), at::zeros({5})};
  const at::Tensor coefficients = at::tensor(std::vector<double>{0.25, -0.5, 1, 0, 2});
  const Tensors tiles{numbers({5, 8}), numbers({5, 5})};
  Tensors all{targets, tiles[0], tiles[1], at::empty({5}, at::kDouble)};
  all.insert(all.end(), sums.begin(), sums.end());
  all.push_back(coefficients);
  expect_same(all, SLUICE_BOTH({
                const LogitSums of_tokens{x[4], x[5], x[6]};
                processor::join_logits(x[1], 0, x[0], of_tokens);
                processor::join_logits(x[2], 8, x[0], of_tokens);
                processor::cross_entropies(of_tokens, x[0], x[3]);
                processor::logits_to_gradient(x[1], 0, x[0], of_tokens, x[7]);
                processor::logits_to_gradient(x[2], 8, x[0], of_tokens, x[7]);
              }),
              2);
}

TEST_P(OtherDeviceSeam, rows_of_tokens) {
  const std::vector<std::int32_t> tokens{2, 0, 2, 3};
  const at::Tensor rows = numbers({4, 5});
  expect_same(
      {rows}, [&](const Tensors& x) { return Tensors{cpu::take_rows(x[0], tokens)}; },
      [&](const Tensors& x) { return Tensors{device::take_rows(x[0], tokens)}; });
  expect_same(
      {rows}, [&](const Tensors& x) { return Tensors{cpu::sum_of_parts(x[0], tokens, 6)}; },
      [&](const Tensors& x) { return Tensors{device::sum_of_parts(x[0], tokens, 6)}; });
  expect_same(
      {rows}, [&](const Tensors& x) { return Tensors{cpu::sum_of_parts(x[0], {}, 2)}; },
      [&](const Tensors& x) { return Tensors{device::sum_of_parts(x[0], {}, 2)}; });
  expect_same(
      {rows.narrow(0, 0, 0)}, [&](const Tensors& x) { return Tensors{cpu::sum_of_parts(x[0], {}, 0)}; },
      [&](const Tensors& x) { return Tensors{device::sum_of_parts(x[0], {}, 0)}; });
  expect_same({floats({4, 5}), numbers({4, 5})}, SLUICE_BOTH(processor::round_rows(x[0], x[1])));
  const at::Tensor ids = at::tensor({1, 6, 1, 0}, at::kLong);
  expect_same({rows, ids, floats({7, 9})},
              SLUICE_BOTH(processor::add_token_rows(x[0], x[1], /*padding=*/6, x[2].narrow(1, 2, 5))));
}

TEST(OtherDeviceSeam, token_ids) {
  const at::Tensor ids = at::tensor({4, 1, -100, 7, 4}, at::kLong), there = on_device(ids);
  const auto found = device::first_outside(there, 6, -100);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->place, 3);
  EXPECT_EQ(found->id, 7);
  EXPECT_FALSE(device::first_outside(there, 8, -100).has_value());
  const std::array lists{ids, ids.slice(0, 0, 2)}, lists_there{there, there.slice(0, 0, 2)};
  EXPECT_EQ(device::distinct_ids(lists_there), cpu::distinct_ids(lists));
  const std::vector<std::int64_t> rows{1, 4, 7};
  expect_same({ids, at::empty_like(ids)},
              SLUICE_BOTH(processor::find_places(x[0], rows, /*padding=*/-100, x[1])));
  expect_same({document_begins(), at::empty({2, 40}, at::kLong)},
              SLUICE_BOTH(processor::find_document_begins(x[0], x[1])));
  const Documents documents = documents_from(on_device(document_begins()));
  EXPECT_TRUE(documents.bounds.cpu().equal(at::tensor({0, 5, 6, 33, 40, 57, 80}, at::kInt)));
  EXPECT_EQ(documents.longest, 27);
  const at::Tensor chosen = at::tensor({0, 1, 3, 2, 1, 1}, at::kInt).view({3, 2});
  const std::array<std::uint32_t, 4> list_of{0, 0, 1, 1};
  const TokenLists expected = cpu::list_tokens(chosen, list_of, 2),
                   listed = device::list_tokens(on_device(chosen), list_of, 2);
  EXPECT_EQ(listed.counts, expected.counts);
  EXPECT_EQ(listed.tokens, expected.tokens);
}

}  // namespace
}  // namespace sluice::ops
