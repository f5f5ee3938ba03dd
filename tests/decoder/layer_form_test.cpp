#include "decoder/decoder.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/manifest_builder.hpp"
#include "model/small_model.hpp"
#include "ops/runtime/graph_gradient.hpp"
#include "support/no_exchange.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kPositions = 6, kWidth = 24;
constexpr int kMixerAlone = 0, kMlpAlone = 1;

/// A model whose first layer is attention alone, and whose second one is experts alone.
ModelDescription halves() {
  ModelDescription model = test::described(nlohmann::json::object(), DType::kFloat32, {});
  model.config.layers[kMixerAlone] = MlpKind::kNone;
  model.config.attention[kMlpAlone] = AttentionKind::kNone;
  model.manifest = describe_decoder(model.config, DType::kFloat32);
  return model;
}

class LayerFormTest : public testing::Test {
 protected:
  explicit LayerFormTest(ModelDescription model = halves()) : model_(std::move(model), DType::kFloat32) {
    for (int unit = 0; unit < static_cast<int>(model_.layouts.units.size()); ++unit) {
      views_.bind(unit, model_.weights.unit_data(unit));
      views_.bind_gradients(unit, reinterpret_cast<float*>(gradients_.unit_data(unit)));
    }
  }

  [[nodiscard]] at::Tensor mlp_sublayer(int layer, const at::Tensor& x) {
    RoutingRecord record;
    return decoder_.mlp_sublayer(layer, {x}, record, sums_, {}, all_experts_);
  }
  [[nodiscard]] at::Tensor token_mixer(int layer, const at::Tensor& x) {
    ops::AttentionRecord record;
    return decoder_.token_mixer(layer, x, {}, record).hidden;
  }

  test::SmallModel model_;
  ShardArena gradients_{model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate, "gradients"};
  ParameterViews views_{model_.description.manifest, model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate};
  test::NoExchange all_experts_;
  Decoder decoder_{model_.description.config, views_, kPositions, nullptr};
  RoutingSums sums_ = decoder_.no_routing(kMlpAlone);
  at::Tensor x_ = at::randn({2, kPositions, kWidth}, at::detail::createCPUGenerator(1), at::kFloat);
};

TEST_F(LayerFormTest, a_half_that_a_layer_has_not_leaves_the_hidden_states_and_their_gradient_as_they_are) {
  const at::Tensor x = x_.clone().requires_grad_();
  EXPECT_TRUE(token_mixer(kMlpAlone, x).is_same(x));
  EXPECT_TRUE(mlp_sublayer(kMixerAlone, x).is_same(x));
  EXPECT_FALSE(token_mixer(kMixerAlone, x).equal(x));
  EXPECT_FALSE(mlp_sublayer(kMlpAlone, x).equal(x));
  const at::Tensor gradient = at::full_like(x_, 0.5);
  EXPECT_TRUE(ops::graph_gradient(token_mixer(kMlpAlone, x), x, gradient).equal(gradient));
}

TEST_F(LayerFormTest, a_layer_without_a_mixer_has_no_cache) {
  const at::NoGradGuard no_grad;
  SequenceCache cache(model_.description.config, 1, kPositions, DType::kFloat32, at::kCPU);
  const std::vector<SequencePart> parts{{0, 0, kPositions}};
  const RotaryTables rotary = decoder_.rotary_rows(parts);
  const at::Tensor tokens = x_[0];
  EXPECT_TRUE(decoder_.token_mixer(kMlpAlone, tokens, parts, rotary, cache).hidden.is_same(tokens));
  EXPECT_EQ(cache.bytes(),
            layer_cache(model_.description.config, kMixerAlone, 4).position_bytes * kPositions);
  cache.clear(0);
  EXPECT_TRUE(cache.can_be_shortened());
}

/// A model of a dense layer and one with experts and a shared expert, after `change` of its config.
template <class Change>
ModelDescription with_all_mlps(const Change& change) {
  ModelDescription model = test::described(nlohmann::json::object(), DType::kFloat32, {});
  model.config.layers = {MlpKind::kDense, MlpKind::kMoe};
  model.config.intermediate_size = 20;
  model.config.shared_expert_intermediate_size = 12;
  change(model.config);
  model.manifest = describe_decoder(model.config, DType::kFloat32);
  return model;
}

class MlpFormTest : public LayerFormTest {
 protected:
  using LayerFormTest::LayerFormTest;

  [[nodiscard]] at::Tensor weight(int layer, std::string_view name) const {
    return views_[layer_tensor_name(layer, name)].value;
  }
  [[nodiscard]] at::Tensor normalised(int layer) const {
    const at::Tensor rows = x_.reshape({-1, kWidth});
    const double epsilon = model_.description.config.rms_norm_eps;
    return rows * (rows.square().mean(1, true) + epsilon).rsqrt() *
           weight(layer, "post_attention_layernorm.weight");
  }
  void expect_adds(int layer, const at::Tensor& added) {
    const at::NoGradGuard no_grad;
    const at::Tensor found = mlp_sublayer(layer, x_).reshape({-1, kWidth});
    EXPECT_TRUE(at::allclose(found, x_.reshape({-1, kWidth}) + added, 1e-4, 1e-5));
    EXPECT_FALSE(at::allclose(added, at::zeros_like(added), 0, 1e-3));
  }

  /// What routed experts make of x, each of them of_expert(number).
  template <class Expert>
  [[nodiscard]] at::Tensor routed(const at::Tensor& x, const Expert& of_expert) const {
    const ModelConfig& config = model_.description.config;
    const at::Tensor probabilities = at::softmax(at::mm(x, weight(1, "mlp.gate.weight").t()), 1);
    auto [weights, chosen] = probabilities.topk(config.experts_per_token, 1);
    if (config.router.normalize) weights = weights / weights.sum(1, true);
    at::Tensor sum = at::zeros_like(x);
    for (std::int64_t expert = 0; expert < config.experts; ++expert)
      sum = sum + of_expert(expert) * (weights * chosen.eq(expert)).sum(1, true);
    return sum;
  }
};

class UngatedTest : public MlpFormTest {
 protected:
  UngatedTest()
      : MlpFormTest(
            with_all_mlps([](ModelConfig& config) { config.mlp_activation = MlpActivation::kSquaredRelu; })) {
  }

  static at::Tensor mlp(const at::Tensor& x, const at::Tensor& up, const at::Tensor& down) {
    return at::mm(at::relu(at::mm(x, up.t())).square(), down.t());
  }
};

TEST_F(UngatedTest, a_dense_layer_squares_the_relu_of_its_one_projection) {
  expect_adds(0, mlp(normalised(0), weight(0, "mlp.up_proj.weight"), weight(0, "mlp.down_proj.weight")));
}

TEST_F(UngatedTest, so_do_routed_and_shared_experts) {
  const at::Tensor x = normalised(1), up = weight(1, "mlp.experts.up_proj"),
                   down = weight(1, "mlp.experts.down_proj");
  const at::Tensor shared = mlp(x, weight(1, "mlp.shared_experts.up_proj.weight"),
                                weight(1, "mlp.shared_experts.down_proj.weight"));
  expect_adds(1, shared + routed(x, [&](std::int64_t expert) { return mlp(x, up[expert], down[expert]); }));
}

/// Limits of the silu and of up that are another in each MLP, and low enough to cut off many numbers.
class LimitedTest : public MlpFormTest {
 protected:
  LimitedTest()
      : MlpFormTest(with_all_mlps([](ModelConfig& config) {
          config.swiglu_clamp = SwigluClamp::kSilu;
          config.limits_by_layer = {{.dense = 0.2}, {.experts = 0.3, .shared_expert = 0.1}};
        })) {}

  static at::Tensor mlp(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                        const at::Tensor& down, double limit) {
    const at::Tensor silu = at::silu(at::mm(x, gate.t())), factor = at::mm(x, up.t());
    EXPECT_TRUE(silu.gt(limit).any().item<bool>() && factor.lt(-limit).any().item<bool>());
    return at::mm(silu.clamp_max(limit) * factor.clamp(-limit, limit), down.t());
  }
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, int layer, const std::string& name, double limit) const {
    return mlp(x, weight(layer, name + ".gate_proj.weight"), weight(layer, name + ".up_proj.weight"),
               weight(layer, name + ".down_proj.weight"), limit);
  }
};

TEST_F(LimitedTest, dense_layers_clamp_at_their_limit) { expect_adds(0, mlp(normalised(0), 0, "mlp", 0.2)); }

TEST_F(LimitedTest, routed_and_shared_experts_clamp_each_at_theirs) {
  const at::Tensor x = normalised(1), gate_up = weight(1, "mlp.experts.gate_up_proj"),
                   down = weight(1, "mlp.experts.down_proj");
  const at::Tensor of_experts = routed(x, [&](std::int64_t expert) {
    const auto halves = gate_up[expert].chunk(2, 0);
    return mlp(x, halves[0], halves[1], down[expert], 0.3);
  });
  expect_adds(1, of_experts + mlp(x, 1, "mlp.shared_experts", 0.1));
}

/// Both halves get one LayerNorm of the input, and experts count half.
class ParallelTest : public MlpFormTest {
 protected:
  ParallelTest()
      : MlpFormTest(with_all_mlps([](ModelConfig& config) {
          config.parallel_halves = config.layer_norms = true;
          config.mixture_factor = 0.5;
        })) {}

  /// What both halves of a layer get.
  [[nodiscard]] at::Tensor layer_norm(int layer) const {
    const at::Tensor centred = x_ - x_.mean(2, true);
    const double epsilon = model_.description.config.rms_norm_eps;
    return centred * (centred.square().mean(2, true) + epsilon).rsqrt() *
           weight(layer, "input_layernorm.weight");
  }
  [[nodiscard]] Halfway halfway(int layer) const {
    ops::AttentionRecord record;
    return decoder_.token_mixer(layer, x_, {}, record);
  }
  /// What the MLP of a layer adds to the hidden states.
  [[nodiscard]] at::Tensor added(int layer, const Halfway& from) {
    RoutingRecord record;
    return (decoder_.mlp_sublayer(layer, from, record, sums_, {}, all_experts_) - from.hidden)
        .reshape({-1, kWidth});
  }
  static at::Tensor mlp(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                        const at::Tensor& down) {
    return at::mm(at::silu(at::mm(x, gate.t())) * at::mm(x, up.t()), down.t());
  }
  [[nodiscard]] at::Tensor mlp(const at::Tensor& x, int layer, const std::string& name) const {
    return mlp(x, weight(layer, name + ".gate_proj.weight"), weight(layer, name + ".up_proj.weight"),
               weight(layer, name + ".down_proj.weight"));
  }
};

TEST_F(ParallelTest, the_mlp_gets_the_normalised_input_whatever_the_mixer_made_of_it) {
  const at::NoGradGuard no_grad;
  for (const int layer : {0, 1}) {
    const Halfway from = halfway(layer);
    EXPECT_TRUE(at::allclose(from.normalised, layer_norm(layer), 1e-5, 1e-6));
    EXPECT_FALSE(at::allclose(from.hidden, x_, 0, 1e-3));
    EXPECT_TRUE(
        at::allclose(added(layer, from), added(layer, {at::zeros_like(x_), from.normalised}), 0, 1e-5));
    EXPECT_FALSE(
        model_.description.manifest.find(layer_tensor_name(layer, "post_attention_layernorm.weight")));
  }
}

TEST_F(ParallelTest, experts_count_by_their_factor_and_a_dense_mlp_does_not) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = layer_norm(0).reshape({-1, kWidth}), x = layer_norm(1).reshape({-1, kWidth}),
                   gate_up = weight(1, "mlp.experts.gate_up_proj"), down = weight(1, "mlp.experts.down_proj");
  EXPECT_TRUE(at::allclose(added(0, halfway(0)), mlp(dense, 0, "mlp"), 1e-4, 1e-5));
  const at::Tensor of_experts = routed(x, [&](std::int64_t expert) {
    const auto halves = gate_up[expert].chunk(2, 0);
    return mlp(x, halves[0], halves[1], down[expert]);
  });
  EXPECT_TRUE(
      at::allclose(added(1, halfway(1)), (of_experts + mlp(x, 1, "mlp.shared_experts")) / 2, 1e-4, 1e-5));
}

TEST_F(ParallelTest, the_first_half_once_more_gives_the_mlp_its_input_without_the_mixer) {
  for (const int layer : {0, 1}) {
    const Halfway from = halfway(layer), again = decoder_.halfway(layer, x_, from.hidden);
    EXPECT_TRUE(again.hidden.is_same(from.hidden) && again.normalised.equal(from.normalised));
  }
}

/// A model whose layers have latent attention with a gate by head.
ModelDescription with_gated_latent_attention() {
  ModelDescription model = test::described({{"model_type", "deepseek_v3"},
                                            {"num_key_value_heads", 4},
                                            {"head_dim", 6},
                                            {"kv_lora_rank", 9},
                                            {"q_lora_rank", 7},
                                            {"qk_nope_head_dim", 8},
                                            {"qk_rope_head_dim", 6},
                                            {"v_head_dim", 10},
                                            {"n_routed_experts", 5},
                                            {"n_group", 1},
                                            {"topk_group", 1},
                                            {"first_k_dense_replace", 2}},
                                           DType::kFloat32, {});
  model.config.attention_output_gate = model.config.separate_gate = model.config.gate_per_head = true;
  model.manifest = describe_decoder(model.config, DType::kFloat32);
  return model;
}

class GatedLatentTest : public LayerFormTest {
 protected:
  GatedLatentTest() : LayerFormTest(with_gated_latent_attention()) {}

  [[nodiscard]] at::Tensor weight(std::string_view name) const {
    return views_[layer_tensor_name(0, name)].value;
  }
};

TEST_F(GatedLatentTest, each_head_of_latent_attention_counts_by_the_sigmoid_of_its_gate) {
  const at::NoGradGuard no_grad;
  const at::Tensor normalised =
      x_ * (x_.square().mean(2, true) + 1e-6).rsqrt() * weight("input_layernorm.weight");
  const at::Tensor gate = weight("self_attn.g_proj.weight"), o_proj = weight("self_attn.o_proj.weight");
  const at::Tensor found = token_mixer(0, x_) - x_, all = o_proj.clone();
  const at::Tensor weights = at::sigmoid(at::matmul(normalised, gate.t()));
  const std::int64_t width = all.size(1) / weights.size(2);
  gate.zero_();  // so that each head counts half
  at::Tensor expected = at::zeros_like(found);
  for (std::int64_t head = 0; head < weights.size(2); ++head) {
    o_proj.zero_();
    o_proj.narrow(1, head * width, width).copy_(all.narrow(1, head * width, width));
    expected += 2 * weights.narrow(2, head, 1) * (token_mixer(0, x_) - x_);
  }
  EXPECT_TRUE(at::allclose(found, expected, 1e-4, 1e-5));
}

TEST_F(GatedLatentTest, latent_attention_with_a_cache_has_the_same_gate) {
  const at::NoGradGuard no_grad;
  SequenceCache cache(model_.description.config, 1, kPositions, DType::kFloat32, at::kCPU);
  const at::Tensor whole = token_mixer(0, x_);
  std::int64_t begin = 0;
  for (const std::int64_t count : {std::int64_t{1}, kPositions - 1}) {
    const std::vector<SequencePart> parts{{0, begin, count}};
    const at::Tensor found =
        decoder_.token_mixer(0, x_[0].narrow(0, begin, count), parts, decoder_.rotary_rows(parts), cache)
            .hidden;
    EXPECT_TRUE(at::allclose(found, whole[0].narrow(0, begin, count), 1e-4, 1e-5));
    begin += count;
  }
}

}  // namespace
}  // namespace sluice
