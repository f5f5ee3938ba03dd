#include "model/families/granitemoehybrid.hpp"

#include "manifest/adapter.hpp"
#include "manifest/key_map.hpp"
#include "model/blocks/layer_blocks.hpp"
#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace sluice {
namespace {

using namespace test;

/// config.json of Granite-4.0-H-Tiny with changes: keys set to null are taken away.
json granite_4_config(const json& changes) {
  json config = published_config("Granite-4.0-H-Tiny");
  config.merge_patch(changes);
  return config;
}
ModelDescription granite_4(const json& changes = json::object()) {
  return describe_model_text(granite_4_config(changes).dump(), "config.json", DType::kBFloat16);
}

void expect_granite_4_refused(const json& changes, const std::vector<std::string>& parts) {
  SCOPED_TRACE(changes.dump());
  expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(granite_4(changes)); });
}

TEST(GraniteMoeHybrid, nine_of_ten_layers_are_mamba_2_and_attention_does_not_rotate) {
  const ModelDescription model = granite_4();
  EXPECT_EQ(block_kinds(model.config), "MMMMMFMMMMMMMMMFMMMMMMMMMFMMMMMMMMMFMMMM");
  EXPECT_EQ(model.config.rotary.dim, 0);
  EXPECT_EQ(model.config.shared_expert_intermediate_size, 1024);
  EXPECT_EQ(shape_of(model, "model.layers.0.mamba.in_proj.weight"), (Shape{2 * 3072 + 2 * 128 + 48, 1536}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mamba.conv1d.weight"), (Shape{3072 + 2 * 128, 1, 4}));
  EXPECT_EQ(shape_of(model, "model.layers.5.mamba.norm.weight"), (Shape{-1}));
}

TEST(GraniteMoeHybrid, decay_rates_steps_and_skips_are_float32_parameters_in_any_model) {
  const ModelDescription model = granite_4();
  for (const char* name : {"mamba.A_log", "mamba.D", "mamba.dt_bias"}) {
    const TensorInfo& tensor = model.manifest[model.manifest.find(layer_tensor_name(0, name)).value()];
    EXPECT_EQ(tensor.kind, TensorKind::kFloat32Parameter) << name;
    EXPECT_EQ(tensor.dtype, DType::kFloat32) << name;
  }
  EXPECT_EQ(model.manifest.whole_tensors().size(), 3 * 36);
}

TEST(GraniteMoeHybrid, checkpoints_have_names_of_their_own) {
  const ModelDescription model = granite_4();
  std::set<std::string> names;
  for (const PublishedTensor& tensor : KeyMap(model.manifest).published(ExpertLayout::kPerExpert))
    names.insert(tensor.name);
  for (const char* name :
       {"model.layers.0.mamba.A_log", "model.layers.0.mamba.conv1d.bias",
        "model.layers.0.mamba.out_proj.weight", "model.layers.0.shared_mlp.input_linear.weight",
        "model.layers.0.shared_mlp.output_linear.weight", "model.layers.5.self_attn.q_proj.weight",
        "model.layers.5.block_sparse_moe.input_linear.weight",
        "model.layers.5.block_sparse_moe.router.layer.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  const KeyMap keys(model.manifest);
  for (const std::string& name : names)
    EXPECT_TRUE(std::holds_alternative<KeyTarget>(keys.resolve(name))) << name;
}

TEST(GraniteMoeHybrid, projections_can_be_adapted_and_convolutions_and_float32_parameters_cannot) {
  std::set<std::string> names;
  for (const AdaptableWeight& weight : adaptable_weights(granite_4().manifest))
    names.insert(weight.info.name);
  for (const char* name : {"model.layers.0.mamba.in_proj.weight", "model.layers.0.mamba.out_proj.weight",
                           "model.layers.0.shared_mlp.input_linear.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* part : {"conv1d", "A_log", "mamba.D", "dt_bias"})
    EXPECT_TRUE(std::ranges::none_of(names, [&](const std::string& name) {
      return name.find(part) != std::string::npos;
    })) << part;
}

TEST(GraniteMoeHybrid, without_experts_the_shared_mlp_is_the_only_one) {
  const ModelDescription model = granite_4({{"num_local_experts", 0}, {"num_experts_per_tok", 0}});
  EXPECT_EQ(model.config.moe_layer_count(), 0);
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.down_proj.weight"), (Shape{1536, 1024}));
}

TEST(GraniteMoeHybrid, limits_of_time_steps_are_read_as_python_or_transformers_writes_infinity) {
  EXPECT_TRUE(std::isinf(granite_4().config.mamba2.largest_step));
  const ModelConfig limited = granite_4({{"time_step_limit", {0.001, {{"__float__", "Infinity"}}}}}).config;
  EXPECT_EQ(limited.mamba2.least_step, 0.001);
  EXPECT_TRUE(std::isinf(limited.mamba2.largest_step));
  std::string text = granite_4_config({{"time_step_limit", {0.25, 0.5}}, {"note", "Infinity \" 0.5"}}).dump();
  text.replace(text.find("0.5]"), 3, "Infinity");
  const ModelConfig bare = describe_model_text(text, "config.json", DType::kBFloat16).config;
  EXPECT_EQ(bare.mamba2.least_step, 0.25);
  EXPECT_TRUE(std::isinf(bare.mamba2.largest_step));
}

TEST(GraniteMoeHybrid, names_of_layers_are_read_as_transformers_5_writes_them) {
  json types = json::array();
  for (int layer = 0; layer < 40; ++layer)
    types.push_back(layer == 7 ? "full_attention" : "linear_attention");
  EXPECT_EQ(block_kinds(granite_4({{"layer_types", types}}).config).find('F'), 7);
  EXPECT_EQ(block_kinds(granite_4({{"layer_types", nullptr}}).config), std::string(40, 'M'));
}

TEST(GraniteMoeHybrid, what_no_block_computes_is_refused) {
  expect_granite_4_refused({{"mamba_proj_bias", true}}, {"mamba_proj_bias", "true"});
  expect_granite_4_refused({{"mamba_d_head", 32}}, {"mamba_d_head", "32"});
  expect_granite_4_refused({{"mamba_n_heads", 7}}, {"mamba_n_heads", "7"});
  expect_granite_4_refused({{"mamba_n_groups", 5}}, {"mamba_n_groups", "5"});
  expect_granite_4_refused({{"time_step_limit", {0.5, 0.1}}}, {"time_step_limit"});
  expect_granite_4_refused({{"time_step_limit", 0.5}}, {"time_step_limit"});
  expect_granite_4_refused({{"layer_types", json(std::vector<std::string>(40, "sliding_attention"))}},
                           {"layer_types", "mamba"});
}

}  // namespace
}  // namespace sluice
