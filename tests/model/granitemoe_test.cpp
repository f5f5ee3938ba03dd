#include "model/families/granitemoe.hpp"

#include "manifest/key_map.hpp"
#include "model/blocks/block.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of granite-3.0-1b-a400m with changes: keys set to null are taken away.
ModelDescription granite(const json& changes = json::object()) {
  json config = published_config("Granite-3.0-1B-A400M");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(GraniteMoe, four_factors_are_read) {
  const ModelConfig config = granite().config;
  EXPECT_EQ(config.embedding_factor, 12);
  EXPECT_EQ(config.residual_factor, 0.22);
  EXPECT_EQ(config.score_factor, 0.015625);
  EXPECT_EQ(config.logit_divisor, 6);
  EXPECT_EQ(config.moe_layer_count(), 24);
  EXPECT_TRUE(config.router.normalize);
}

TEST(GraniteMoe, checkpoints_have_all_experts_of_a_layer_in_two_tensors_in_either_layout) {
  const ModelDescription model = granite({{"attention_bias", true}, {"tie_word_embeddings", false}});
  for (const ExpertLayout layout : {ExpertLayout::kPerExpert, ExpertLayout::kFused}) {
    std::set<std::string> names;
    for (const PublishedTensor& tensor : KeyMap(model.manifest).published(layout)) names.insert(tensor.name);
    EXPECT_EQ(names.size(), 3 + 24 * 13);
    for (const char* name : {"lm_head.weight", "model.layers.0.self_attn.o_proj.bias",
                             "model.layers.23.block_sparse_moe.input_linear.weight",
                             "model.layers.23.block_sparse_moe.output_linear.weight",
                             "model.layers.23.block_sparse_moe.router.layer.weight"})
      EXPECT_TRUE(names.contains(name)) << name;
    for (const std::string& name : names)
      EXPECT_TRUE(std::holds_alternative<KeyTarget>(KeyMap(model.manifest).resolve(name))) << name;
  }
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.experts.gate_up_proj"), (Shape{32, 2 * 512, 1024}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.experts.down_proj"), (Shape{32, 1024, 512}));
}

TEST(GraniteMoe, names_of_transformers_module_tree_are_known_too) {
  const ModelDescription model = granite();
  const KeyMap keys(model.manifest);
  for (const char* tensor : {"mlp.gate.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"}) {
    const std::string name = layer_tensor_name(3, tensor);
    const std::string in_tree = model.manifest.tree_name(name);
    EXPECT_TRUE(in_tree.starts_with("model.layers.3.block_sparse_moe.")) << in_tree;
    const auto target = keys.resolve(in_tree);
    ASSERT_TRUE(std::holds_alternative<KeyTarget>(target)) << in_tree;
    EXPECT_EQ(model.manifest[std::get<KeyTarget>(target).tensor()].name, name);
  }
  EXPECT_EQ(model.manifest.tree_name("model.layers.3.mlp.gate.weight"),
            "model.layers.3.block_sparse_moe.router.weight");
}

TEST(GraniteMoe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = granite({{"attention_bias", nullptr},
                                      {"attention_multiplier", nullptr},
                                      {"embedding_multiplier", nullptr},
                                      {"logits_scaling", nullptr},
                                      {"num_key_value_heads", nullptr},
                                      {"pad_token_id", nullptr},
                                      {"residual_multiplier", nullptr},
                                      {"rms_norm_eps", nullptr},
                                      {"rope_theta", nullptr},
                                      {"tie_word_embeddings", nullptr}})
                                 .config;
  EXPECT_EQ(config.embedding_factor, 1);
  EXPECT_EQ(config.residual_factor, 1);
  EXPECT_EQ(config.score_factor, 1);
  EXPECT_EQ(config.logit_divisor, 1);
  EXPECT_EQ(config.key_value_heads, 16);
  EXPECT_EQ(config.padding_token, -1);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rotary.theta, 1e4);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_output_bias);
}

TEST(GraniteMoe, dropout_of_attention_is_known_and_not_applied) {
  EXPECT_EQ(granite().config.attention_dropout, 0.1);
  EXPECT_TRUE(granite().config.unknown_keys.empty());
}

TEST(GraniteMoe, factors_that_are_no_factors_are_refused) {
  for (const char* key :
       {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"})
    expect_error(ExitCode::kBadData, {key}, [&] { static_cast<void>(granite({{key, 0}})); });
}

}  // namespace
}  // namespace sluice
