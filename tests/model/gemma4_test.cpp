#include "model/families/gemma4.hpp"

#include "manifest/key_map.hpp"
#include "model/agreed_settings.hpp"
#include "model/blocks/layer_blocks.hpp"
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

/// config.json of Gemma-4-26B-A4B with six layers and changes to its text_config: keys set to null are taken away.
ModelDescription gemma(const json& changes = json::object()) {
  json config = published_config("gemma-4-26B-A4B");
  config["text_config"]["num_hidden_layers"] = 6;
  config["text_config"].merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

TEST(Gemma4, full_layers_have_larger_heads_whose_values_are_their_keys) {
  const ModelDescription model = gemma();
  EXPECT_EQ(block_kinds(model.config), "SSSSSF");
  EXPECT_EQ(shape_of(model, layer_tensor_name(0, "self_attn.q_proj.weight")), (Shape{16 * 256, 2816}));
  EXPECT_EQ(shape_of(model, layer_tensor_name(0, "self_attn.v_proj.weight")), (Shape{8 * 256, 2816}));
  EXPECT_EQ(shape_of(model, layer_tensor_name(5, "self_attn.q_proj.weight")), (Shape{16 * 512, 2816}));
  EXPECT_EQ(shape_of(model, layer_tensor_name(5, "self_attn.k_proj.weight")), (Shape{2 * 512, 2816}));
  EXPECT_EQ(shape_of(model, layer_tensor_name(5, "self_attn.q_norm.weight")), (Shape{512}));
  EXPECT_FALSE(model.manifest.find(layer_tensor_name(5, "self_attn.v_proj.weight")));
  EXPECT_EQ(layer_cache(model.config, 0, 2).position_bytes, 2 * 8 * 256 * 2);
  EXPECT_EQ(layer_cache(model.config, 5, 2).position_bytes, 2 * 2 * 512 * 2);
}

TEST(Gemma4, heads_by_layer_are_read_in_either_spelling) {
  const json by_layer{{"global_head_dim", nullptr},
                      {"num_global_key_value_heads", nullptr},
                      {"per_layer_config", {{"5", {{"head_dim", 512}, {"num_key_value_heads", 2}}}}}};
  EXPECT_EQ(gemma(by_layer).manifest.structure_hash().hex(), gemma().manifest.structure_hash().hex());
  EXPECT_EQ(gemma(by_layer).config.heads_by_layer, gemma().config.heads_by_layer);
}

TEST(Gemma4, a_quarter_of_the_pairs_of_large_heads_turn_as_fast_as_if_all_did) {
  const ModelConfig config = gemma().config;
  const RotaryConfig &full = config.rotary_of(AttentionKind::kFull),
                     &sliding = config.rotary_of(AttentionKind::kSliding);
  EXPECT_EQ(full.dim, 512);
  EXPECT_EQ(full.turning_pairs, 64);
  EXPECT_EQ(full.theta, 1e6);
  EXPECT_EQ(sliding.dim, 256);
  EXPECT_EQ(sliding.turning_pairs, 0);
}

TEST(Gemma4, each_layer_has_a_dense_mlp_beside_its_experts) {
  const ModelDescription model = gemma();
  EXPECT_EQ(shape_of(model, layer_tensor_name(3, "mlp.up_proj.weight")), (Shape{2112, 2816}));
  EXPECT_EQ(shape_of(model, layer_tensor_name(3, "mlp.experts.down_proj")), (Shape{128, 2816, 704}));
  EXPECT_EQ(block_of(MlpKind::kDense).count_in(model.config), 6);
  EXPECT_EQ(block_of(MlpKind::kMoe).count_in(model.config), 6);
}

TEST(Gemma4, checkpoints_have_names_of_their_own_and_a_constant_for_each_layer) {
  const ModelDescription model = gemma();
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name :
       {"router.proj.weight", "router.scale", "router.per_expert_scale", "experts.gate_up_proj",
        "experts.down_proj", "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight",
        "post_feedforward_layernorm_1.weight", "post_feedforward_layernorm_2.weight",
        "pre_feedforward_layernorm_2.weight", "layer_scalar"})
    EXPECT_TRUE(names.contains("model.language_model.layers.2." + std::string(name))) << name;
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(KeyMap(model.manifest).resolve(name))) << name;
  const TensorInfo& constant = model.manifest[*model.manifest.find(layer_tensor_name(2, "layer_scalar"))];
  EXPECT_EQ(constant.kind, TensorKind::kPersistentBuffer);
  EXPECT_TRUE(is_constant(constant));
}

TEST(Gemma4, parts_beside_the_language_model_are_carried_along) {
  const ModelDescription model = gemma();
  for (const char* name :
       {"model.vision_tower.encoder.layers.0.mlp.up_proj.weight",
        "model.embed_vision.embedding_projection.weight", "model.audio_tower.layers.0.norm.weight",
        "model.embed_audio.embedding_projection.weight"})
    EXPECT_TRUE(std::holds_alternative<IgnoredKey>(KeyMap(model.manifest).resolve(name))) << name;
}

TEST(Gemma4, settings_that_no_block_computes_are_refused_by_their_keys) {
  const auto expect_refused = [](const char* key, const json& value) {
    expect_error(ExitCode::kBadData, {key}, [&] { (void)gemma({{key, value}}); });
  };
  expect_refused("hidden_activation", "silu");
  expect_refused("enable_moe_block", false);
  expect_refused("hidden_size_per_layer_input", 256);
  expect_refused("num_kv_shared_layers", 2);
  expect_refused("use_bidirectional_attention", "all");
  expect_refused("final_logit_softcapping", -1.0);
  expect_refused("num_global_key_value_heads", 3);
  expect_refused("global_head_dim", 511);
  const auto expect_refused_by_layer = [](const char* key, int value) {
    const json own{{"5", {{key, value}}}};
    expect_error(ExitCode::kBadData, {key}, [&] { (void)gemma({{"per_layer_config", own}}); });
  };
  expect_refused_by_layer("head_dim", 7);
  expect_refused_by_layer("num_key_value_heads", 3);
  expect_refused("per_layer_config",
                 {{"3", {{"head_dim", 64}}}});  // other layers of its kind have another size
  expect_refused("top_k_experts", 129);
}

}  // namespace
}  // namespace sluice
