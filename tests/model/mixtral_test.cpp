#include "model/families/mixtral.hpp"

#include "manifest/key_map.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Mixtral-8x7B-v0.1, with changes: keys set to null are taken away.
ModelDescription mixtral(const json& changes = json::object()) {
  json config = published_config("Mixtral-8x7B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Mixtral, has_experts_in_every_layer_and_no_norms_of_queries_and_keys) {
  const ModelDescription model = mixtral();
  EXPECT_EQ(model.config.moe_layer_count(), 32);
  EXPECT_EQ(model.config.query_key_norm, QueryKeyNorm::kNone);
  EXPECT_TRUE(model.config.router.normalize);
  const auto experts = model.manifest.find("model.layers.31.mlp.experts.gate_up_proj");
  ASSERT_TRUE(experts);
  EXPECT_EQ(model.manifest[*experts].shape, (Shape{8, 2 * 14336, 4096}));
  EXPECT_FALSE(model.manifest.find("model.layers.0.self_attn.q_norm.weight"));
}

TEST(Mixtral, is_published_in_names_of_its_own) {
  const ModelDescription model = mixtral({{"num_hidden_layers", 1}});
  const std::vector<PublishedTensor> published = KeyMap(model.manifest).published(ExpertLayout::kPerExpert);
  const auto is_there = [&](const std::string& name, const Shape& shape) {
    return std::ranges::any_of(published, [&](const PublishedTensor& tensor) {
      return tensor.name == name && tensor.target.shape == shape;
    });
  };
  EXPECT_TRUE(is_there("model.layers.0.block_sparse_moe.gate.weight", {8, 4096}));
  EXPECT_TRUE(is_there("model.layers.0.block_sparse_moe.experts.7.w1.weight", {14336, 4096}));
  EXPECT_TRUE(is_there("model.layers.0.block_sparse_moe.experts.7.w2.weight", {4096, 14336}));
  EXPECT_TRUE(is_there("model.layers.0.block_sparse_moe.experts.7.w3.weight", {14336, 4096}));
}

TEST(Mixtral, absent_keys_have_transformers_defaults) {
  const ModelConfig config =
      mixtral({{"rms_norm_eps", nullptr}, {"rope_theta", nullptr}, {"num_key_value_heads", nullptr}}).config;
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotary.theta, 1e6);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.key_value_heads, 8);
  EXPECT_EQ(config.padding_token, -1);
}

TEST(Mixtral, what_would_be_computed_wrongly_is_refused) {
  const auto expect_refused = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(mixtral(changes)); });
  };
  expect_refused({{"sliding_window", 4096}}, {"sliding_window", "found 4096", "null"});
  expect_refused({{"router_jitter_noise", 0.01}}, {"router_jitter_noise", "found 0.01", "0"});
}

}  // namespace
}  // namespace sluice
