#include "decoder/decoder.hpp"

#include "model/small_model.hpp"
#include "support/no_exchange.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kLength = 6;
constexpr int kMoeLayer = 1;

at::Tensor numbers(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

/// A decoder of a dense and a MoE layer whose units are all bound for good, to weights and to gradients.
class DecoderTest : public testing::TestWithParam<nlohmann::json> {
 protected:
  DecoderTest() {
    for (int unit = 0; unit < static_cast<int>(model_.layouts.units.size()); ++unit) {
      views_.bind(unit, model_.weights.unit_data(unit));
      views_.bind_gradients(unit, reinterpret_cast<float*>(gradients_.unit_data(unit)));
    }
  }

  [[nodiscard]] at::Tensor run(int layer, const at::Tensor& x, SavedForRecompute& record) {
    return decoder_.layer(layer, x, {}, record, sums_, balance_, all_experts_);
  }

  /// One pass of a layer and its backward; the gradient of its input.
  at::Tensor pass(const at::Tensor& input, const at::Tensor& d_output, SavedForRecompute record = {}) {
    const at::Tensor x = input.detach().requires_grad_();
    return torch::autograd::grad({run(kMoeLayer, x, record)}, {x}, {d_output}).front();
  }

  /// All gradients so far; they are zero afterwards.
  at::Tensor take_gradients() {
    const at::Tensor flat = torch::from_blob(gradients_.data(), {model_.plan.arena_elements(0)});
    at::Tensor taken = flat.clone();
    flat.zero_();
    return taken;
  }

  test::SmallModel model_{GetParam()};
  ShardArena gradients_{model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate, "gradients"};
  ParameterViews views_{model_.description.manifest, model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate};
  test::NoExchange all_experts_;
  Decoder decoder_{model_.description.config, views_, kLength, nullptr};
  RoutingSums sums_ = decoder_.no_routing(kMoeLayer);
  at::Tensor balance_ = numbers({5}, 3) * 0.01;
};

INSTANTIATE_TEST_SUITE_P(Halves, DecoderTest,
                         testing::Values(nlohmann::json::object({{"mlp_only_layers", {0}}}),
                                         test::parallel_changes()),
                         [](const auto& instance) {
                           return instance.param.contains("model_type") ? "parallel" : "in_turn";
                         });

TEST_P(DecoderTest, a_recomputed_layer_gives_the_gradients_of_a_kept_graph) {
  for (const int layer : {0, kMoeLayer}) {
    const at::Tensor input = numbers({2, kLength, 24}, 1);
    const at::Tensor d_output = numbers({2, kLength, 24}, 2);
    SavedForRecompute kept_record;
    const at::Tensor x = input.clone().requires_grad_();
    const at::Tensor kept = run(layer, x, kept_record);
    const at::Tensor kept_d_x = torch::autograd::grad({kept}, {x}, {d_output}).front();
    const at::Tensor kept_gradients = take_gradients();

    SavedForRecompute record;
    {
      const at::NoGradGuard no_grad;
      EXPECT_TRUE(run(layer, input, record).equal(kept));
    }
    const at::Tensor again = run(layer, x, record);
    EXPECT_TRUE(torch::autograd::grad({again}, {x}, {d_output}).front().equal(kept_d_x));
    EXPECT_TRUE(take_gradients().equal(kept_gradients));
    EXPECT_GT(kept_gradients.abs().max().item<float>(), 0.0F);
  }
}

TEST_P(DecoderTest, halves_run_again_for_their_graphs_give_the_gradients_of_the_whole) {
  for (const int layer : {0, kMoeLayer}) {
    const at::Tensor d_output = numbers({2, kLength, 24}, 2);
    const at::Tensor x = numbers({2, kLength, 24}, 1).requires_grad_();
    SavedForRecompute record;
    const at::Tensor whole_d_x = torch::autograd::grad({run(layer, x, record)}, {x}, {d_output}).front();
    const at::Tensor whole_gradients = take_gradients();

    const Halfway halfway = decoder_.token_mixer(layer, x, {}, record.attention).leaves();
    const Halfway again = decoder_.token_mixer(layer, x, {}, record.attention, ops::Purpose::kGraph);
    const at::Tensor output =
        decoder_.mlp_sublayer(layer, halfway, record.routing, sums_, balance_, all_experts_, d_output);
    const bool has_shared_expert =
        layer == kMoeLayer && model_.description.config.shared_expert_intermediate_size > 0;
    EXPECT_TRUE(again.hidden.equal(x) && output.equal(halfway.hidden) != has_shared_expert)
        << "what is for the graph alone costs no products, but for a shared expert";
    const auto d_halfway = torch::autograd::grad({output}, halfway.tensors(), {d_output});
    EXPECT_TRUE(torch::autograd::grad(again.tensors(), {x}, d_halfway).front().equal(whole_d_x));
    EXPECT_TRUE(take_gradients().equal(whole_gradients));
  }
}

TEST_P(DecoderTest, a_recompute_repeats_the_recorded_choice_and_counts_it_once) {
  const at::Tensor x = numbers({2, kLength, 24}, 1);
  SavedForRecompute record;
  static_cast<void>(run(kMoeLayer, x, record));
  const at::Tensor chosen = record.routing.chosen.clone();
  EXPECT_EQ(sums_.expert_tokens.sum().item<std::int64_t>(), 2 * kLength * 2);
  EXPECT_NEAR(sums_.probability_sums.sum().item<double>(), 2 * kLength, 1e-5);
  const at::Tensor counted = sums_.expert_tokens.clone();

  static_cast<void>(run(kMoeLayer, x, record));
  EXPECT_TRUE(record.routing.chosen.equal(chosen));
  EXPECT_TRUE(sums_.expert_tokens.equal(counted));

  const at::Tensor d_output = numbers({2, kLength, 24}, 2);
  const at::Tensor d_x = pass(x, d_output, record);
  record.routing.chosen = (chosen + 1).remainder(5);
  EXPECT_FALSE(pass(x, d_output, record).allclose(d_x)) << "the record decides, not the router";
}

TEST_P(DecoderTest, a_recompute_takes_the_recorded_attention) {
  const at::Tensor x = numbers({2, kLength, 24}, 1);
  SavedForRecompute record;
  static_cast<void>(run(kMoeLayer, x, record));
  const at::Tensor d_output = numbers({2, kLength, 24}, 2);
  const at::Tensor d_x = pass(x, d_output, record);
  EXPECT_TRUE(pass(x, d_output, record).equal(d_x)) << "a pass leaves the record as it is";
  record.attention.out.add_(1);
  EXPECT_FALSE(pass(x, d_output, record).allclose(d_x)) << "computed again";
}

TEST_P(DecoderTest, two_micro_batches_add_up_to_the_gradient_of_one_twice_as_large) {
  const at::Tensor x = numbers({4, kLength, 24}, 1);
  const at::Tensor d_output = numbers({4, kLength, 24}, 2);
  const at::Tensor d_x = pass(x, d_output);
  const at::Tensor whole = take_gradients();
  const at::Tensor first = pass(x.narrow(0, 0, 2), d_output.narrow(0, 0, 2));
  const at::Tensor second = pass(x.narrow(0, 2, 2), d_output.narrow(0, 2, 2));
  EXPECT_TRUE(at::cat({first, second}).allclose(d_x, 1e-5, 1e-5));
  EXPECT_TRUE(take_gradients().allclose(whole, 1e-5, 1e-5));
}

TEST_P(DecoderTest, the_head_is_the_cross_entropy_of_its_logits) {
  const at::Tensor x = numbers({1, kLength, 24}, 4);
  const at::Tensor targets = at::arange(kLength, at::kLong).unsqueeze(0);
  const Decoder::Head head = decoder_.head(x, targets, 0.5);
  const at::Tensor logits = decoder_.logits(x[0]);
  ASSERT_EQ(logits.sizes(), at::IntArrayRef({kLength, 29}));
  const at::Tensor expected = at::cross_entropy_loss(logits, targets[0], {}, at::Reduction::Sum);
  EXPECT_NEAR(head.losses.sum().item<double>(), expected.item<double>(), 1e-4);
  EXPECT_EQ(head.d_x.sizes(), x.sizes());
  EXPECT_FALSE(decoder_.head(x, targets, ops::NoLossGradient()).d_x.defined());
}

TEST_P(DecoderTest, embedding_looks_up_rows_and_sums_their_gradients) {
  const at::Tensor ids = at::tensor({3, 28, 3}, at::kLong).unsqueeze(0);
  const ops::Parameter& table = views_["model.embed_tokens.weight"];
  EXPECT_TRUE(decoder_.embed(ids)[0][1].equal(table.value[28]));
  decoder_.embed_backward(ids, at::ones({1, 3, 24}));
  EXPECT_EQ(table.grad[3][0].item<float>(), 2.0F);
  EXPECT_EQ(table.grad.sum().item<float>(), 3.0F * 24);
}

TEST_P(DecoderTest, dense_layers_have_no_routing) {
  EXPECT_FALSE(decoder_.no_routing(0).expert_tokens.defined());
  EXPECT_EQ(sums_.expert_tokens.sizes(), at::IntArrayRef({5}));
}

}  // namespace
}  // namespace sluice
