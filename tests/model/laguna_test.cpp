#include "model/families/laguna.hpp"

#include "manifest/key_map.hpp"
#include "model/agreed_settings.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Laguna-XS.2 with four layers and changes: keys set to null are taken away.
ModelDescription laguna(const json& changes = json::object()) {
  json config = published_config("Laguna-XS.2");
  config["num_hidden_layers"] = 4;
  config["layer_types"] = {"full_attention", "sliding_attention", "sliding_attention", "full_attention"};
  config.merge_patch(changes);
  return describe_model_text(config.dump(), "config.json", DType::kBFloat16);
}

void expect_refused(const json& changes, const std::vector<std::string>& parts) {
  expect_error(ExitCode::kBadData, parts, [&] { (void)laguna(changes); });
}

TEST(Laguna, layers_have_heads_of_their_own) {
  const ModelDescription model = laguna({{"num_attention_heads_per_layer", {48, 64, 32, 48}}});
  for (const auto& [layer, heads] : {std::pair{0, 48}, {1, 64}, {2, 32}}) {
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.q_proj.weight")),
              (Shape{heads * 128, 2048}));
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.k_proj.weight")), (Shape{1024, 2048}));
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.o_proj.weight")),
              (Shape{2048, heads * 128}));
    EXPECT_EQ(shape_of(model, layer_tensor_name(layer, "self_attn.gate_proj.weight")), (Shape{heads, 2048}));
  }
  EXPECT_EQ(layer_cache(model.config, 1, 2).position_bytes, 2 * 8 * 128 * 2);
  EXPECT_LT(layer_activations(model.config, 2, {.sequences = 1, .length = 8, .element_bytes = 2}).mixer.kept,
            layer_activations(model.config, 1, {.sequences = 1, .length = 8, .element_bytes = 2}).mixer.kept);
}

TEST(Laguna, full_layers_turn_half_a_head_and_layers_with_a_window_all_of_it) {
  const ModelConfig config = laguna().config;
  EXPECT_EQ(block_kinds(config), "FSSF");
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).dim, 64);
  EXPECT_EQ(config.rotary_of(AttentionKind::kFull).theta, 500000);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).dim, 128);
  EXPECT_EQ(config.rotary_of(AttentionKind::kSliding).theta, 10000);
}

TEST(Laguna, a_gate_has_a_value_for_each_head_or_for_each_entry) {
  const std::string gate = layer_tensor_name(0, "self_attn.gate_proj.weight");
  for (const json& by_head : {json(true), json("per-head")})
    EXPECT_EQ(shape_of(laguna({{"gating", by_head}}), gate), (Shape{48, 2048}));
  EXPECT_EQ(shape_of(laguna({{"gating", "per-element"}}), gate), (Shape{48 * 128, 2048}));
  expect_refused({{"gating", false}}, {"gating", "per-element"});
  expect_refused({{"gating", "per-token"}}, {"gating", "per-token"});
}

TEST(Laguna, checkpoints_have_names_of_their_own) {
  const ModelDescription model = laguna();
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name :
       {"self_attn.g_proj.weight", "mlp.shared_expert.up_proj.weight", "mlp.experts.e_score_correction_bias",
        "mlp.gate.weight", "mlp.experts.255.down_proj.weight"})
    EXPECT_TRUE(names.contains(layer_tensor_name(2, name))) << name;
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(KeyMap(model.manifest).resolve(name))) << name;
}

TEST(Laguna, settings_that_no_block_computes_are_refused) {
  expect_refused({{"moe_apply_router_weight_on_input", true}}, {"moe_apply_router_weight_on_input"});
  expect_refused({{"moe_router_logit_softcapping", -1.0}}, {"moe_router_logit_softcapping", "-1"});
  expect_refused({{"scoring_func", "sqrtsoftplus"}}, {"scoring_func", "sqrtsoftplus"});
  expect_refused({{"num_attention_heads_per_layer", {48, 48}}},
                 {"num_attention_heads_per_layer", "4 layers"});
  expect_refused({{"num_attention_heads_per_layer", {48, 48, 50, 48}}},
                 {"num_attention_heads_per_layer", "num_key_value_heads = 8"});
}

}  // namespace
}  // namespace sluice
