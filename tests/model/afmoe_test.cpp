#include "model/families/afmoe.hpp"

#include "manifest/key_map.hpp"
#include "model/blocks/block.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Trinity-Mini with changes: keys set to null are taken away.
ModelDescription trinity(const json& changes = json::object()) {
  json config = published_config("Trinity-Mini");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Afmoe, three_of_four_layers_have_a_window_and_rotate) {
  const ModelConfig config = trinity({{"num_hidden_layers", 8}}).config;
  EXPECT_EQ(block_kinds(config), "SSSFSSSF");
  EXPECT_EQ(config.sliding_window, 2048);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).dim, 128);
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).dim, 0);
}

TEST(Afmoe, blocks_have_norms_on_both_sides_and_attention_a_gate_of_its_own) {
  const ModelDescription model = trinity();
  for (const char* norm :
       {"input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"})
    EXPECT_EQ(shape_of(model, layer_tensor_name(31, std::string(norm) + ".weight")), (Shape{2048})) << norm;
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.gate_proj.weight"), (Shape{4096, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{4096, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.up_proj.weight"), (Shape{6144, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.2.mlp.experts.down_proj"), (Shape{128, 2048, 1024}));
  EXPECT_EQ(model.config.moe_layer_count(), 30);
}

TEST(Afmoe, checkpoints_have_the_routers_names) {
  const ModelDescription model = trinity({{"num_hidden_layers", 3}});
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name : {"model.layers.2.mlp.router.gate.weight", "model.layers.2.mlp.expert_bias",
                           "model.layers.2.mlp.shared_experts.up_proj.weight",
                           "model.layers.2.mlp.experts.127.gate_proj.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(KeyMap(model.manifest).resolve(name))) << name;
}

TEST(Afmoe, embeddings_are_scaled_where_the_config_says_so) {
  EXPECT_EQ(trinity().config.embedding_factor, std::sqrt(2048.0));
  EXPECT_EQ(trinity({{"mup_enabled", nullptr}}).config.embedding_factor, 1);
}

TEST(Afmoe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = trinity({{"global_attn_every_n_layers", nullptr},
                                      {"head_dim", nullptr},
                                      {"num_dense_layers", nullptr},
                                      {"num_key_value_heads", nullptr},
                                      {"num_shared_experts", nullptr},
                                      {"rms_norm_eps", nullptr},
                                      {"rope_theta", nullptr},
                                      {"route_scale", nullptr},
                                      {"sliding_window", nullptr}})
                                 .config;
  EXPECT_EQ(block_kinds(config).substr(0, 4), "SSSF");
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.moe_layer_count(), 31);
  EXPECT_EQ(config.key_value_heads, 32);
  EXPECT_EQ(config.shared_expert_intermediate_size, 2 * 1024);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.router.scale, 1);
  EXPECT_EQ(config.router.epsilon, 1e-20);
  EXPECT_EQ(config.sliding_window, 1024);
  EXPECT_EQ(config.padding_token, -1);
}

}  // namespace
}  // namespace sluice
