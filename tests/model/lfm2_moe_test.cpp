#include "model/families/lfm2_moe.hpp"

#include "manifest/adapter.hpp"
#include "manifest/key_map.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of LFM2-8B-A1B with changes: keys set to null are taken away.
ModelDescription lfm2(const json& changes = json::object()) {
  json config = published_config("LFM2-8B-A1B");
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_lfm2_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(lfm2(changes)); });
}

TEST(Lfm2Moe, eighteen_of_24_layers_are_short_convolutions_and_the_first_two_mlps_are_dense) {
  const ModelDescription model = lfm2();
  EXPECT_EQ(block_kinds(model.config), "CCFCCCFCCCFCCCFCCCFCCFCC");
  EXPECT_EQ(shape_of(model, "model.layers.0.conv.in_proj.weight"), (Shape{3 * 2048, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.0.conv.conv.weight"), (Shape{2048, 1, 3}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_proj.weight"), (Shape{-1}));
  EXPECT_EQ(shape_of(model, "model.layers.1.mlp.up_proj.weight"), (Shape{7168, 2048}));
  EXPECT_EQ(shape_of(model, "model.layers.2.mlp.experts.down_proj"), (Shape{32, 2048, 1792}));
}

TEST(Lfm2Moe, checkpoints_have_names_of_their_own) {
  const ModelDescription model = lfm2();
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name :
       {"model.embed_tokens.weight", "model.embedding_norm.weight", "model.layers.0.operator_norm.weight",
        "model.layers.0.ffn_norm.weight", "model.layers.0.conv.conv.weight",
        "model.layers.0.feed_forward.w3.weight", "model.layers.2.self_attn.out_proj.weight",
        "model.layers.2.self_attn.k_layernorm.weight", "model.layers.2.feed_forward.gate.weight",
        "model.layers.2.feed_forward.expert_bias", "model.layers.2.feed_forward.experts.31.w2.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* foreign : {"mlp.", "input_layernorm", "o_proj", "lm_head"})
    EXPECT_TRUE(std::ranges::none_of(names, [&](const std::string& name) {
      return name.find(foreign) != std::string::npos;
    })) << foreign;
  const KeyMap keys(model.manifest);
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(name))) << name;
}

TEST(Lfm2Moe, convolutions_take_no_adapter) {
  std::set<std::string> names;
  for (const AdaptableWeight& weight : adaptable_weights(lfm2().manifest)) names.insert(weight.info.name);
  EXPECT_TRUE(names.contains("model.layers.0.conv.in_proj.weight"));
  EXPECT_TRUE(names.contains("model.layers.2.self_attn.out_proj.weight"));
  EXPECT_FALSE(names.contains("model.layers.0.conv.conv.weight"));
}

TEST(Lfm2Moe, older_files_spell_tied_embeddings_and_theta_otherwise) {
  EXPECT_FALSE(lfm2({{"tie_embedding", false}}).config.tie_word_embeddings);
  EXPECT_EQ(lfm2({{"rope_theta", nullptr}, {"rope_parameters", {{"rope_theta", 5e5}}}}).config.rotary.theta,
            5e5);
}

TEST(Lfm2Moe, a_sequence_keeps_the_last_inputs_of_each_convolution) {
  const ModelConfig config = lfm2().config;
  const BlockCache cache = block_of(AttentionKind::kShortConv).cache(config, 2);
  EXPECT_EQ(cache.position_bytes, 0);
  EXPECT_EQ(cache.sequence_bytes, 2 * 2048 * 2);
}

TEST(Lfm2Moe, absent_keys_have_transformers_defaults) {
  const ModelConfig config = lfm2({{"conv_L_cache", nullptr},
                                   {"conv_bias", nullptr},
                                   {"norm_eps", nullptr},
                                   {"norm_topk_prob", nullptr},
                                   {"num_dense_layers", nullptr},
                                   {"num_key_value_heads", nullptr},
                                   {"pad_token_id", nullptr},
                                   {"rope_theta", nullptr},
                                   {"routed_scaling_factor", nullptr},
                                   {"tie_embedding", nullptr},
                                   {"use_expert_bias", nullptr}})
                                 .config;
  EXPECT_EQ(config.short_conv_taps, 3);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.moe_layer_count(), 22);
  EXPECT_EQ(config.key_value_heads, 8);
  EXPECT_EQ(config.padding_token, 0);
  EXPECT_EQ(config.rotary.theta, 1e6);
  EXPECT_EQ(config.router.scale, 1);
  EXPECT_EQ(config.router.epsilon, 1e-6);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_TRUE(config.router.has_correction_bias);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(Lfm2Moe, what_no_block_computes_is_refused) {
  expect_lfm2_refused({{"conv_bias", true}}, {"conv_bias", "true"});
  expect_lfm2_refused({{"layer_types", nullptr}}, {"layer_types", "'conv' or 'full_attention'"});
  expect_lfm2_refused({{"layer_types", json(std::vector<std::string>(24, "sliding_attention"))}},
                      {"layer_types"});
  expect_lfm2_refused({{"hidden_act", "gelu"}}, {"hidden_act", "gelu"});
}

}  // namespace
}  // namespace sluice
