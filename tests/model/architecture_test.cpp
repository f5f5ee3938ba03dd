#include "model/architecture.hpp"

#include "manifest/key_map.hpp"
#include "model/config_text.hpp"
#include "model/shape_of.hpp"
#include "support/source_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using test::config_with;
using test::shape_of;

ModelDescription describe_text(const std::string& text) {
  return describe_model_text(text, "config.json", DType::kBFloat16);
}

class PublishedModel : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path directory_ = fixture_folder() / "configs" / GetParam();
  json expected_ = json::parse(std::ifstream(directory_ / "expected.json"));
  ModelDescription model_ = describe_model(directory_, DType::kBFloat16);
};

TEST_P(PublishedModel, has_the_parameters_that_transformers_counts) {
  EXPECT_EQ(model_.manifest.parameter_count(), expected_["language_parameters"]);
  EXPECT_EQ(model_.manifest.stored_tensors().size(), expected_["language_tensors"]);
}

TEST_P(PublishedModel, has_every_tensor_in_its_shape_under_its_published_name) {
  std::map<std::string, std::vector<std::int64_t>> published;
  for (const PublishedTensor& tensor : KeyMap(model_.manifest).published(ExpertLayout::kFused))
    published[tensor.name] = tensor.target.shape;
  for (const auto& [name, shape] : expected_["tensors"].items())
    EXPECT_EQ(published[name], shape.get<std::vector<std::int64_t>>()) << name;
}

TEST_P(PublishedModel, computes_the_buffers_that_transformers_has_and_no_others) {
  std::map<std::string, std::vector<std::int64_t>> computed;
  for (const TensorInfo& tensor : model_.manifest.tensors())
    if (tensor.kind == TensorKind::kComputedBuffer) computed[tensor.name] = tensor.shape;
  std::map<std::string, std::vector<std::int64_t>> expected;
  for (const auto& [name, shape] : expected_["buffers"].items())
    expected[plain_name(name)] = shape.get<std::vector<std::int64_t>>();
  EXPECT_EQ(computed, expected);
}

TEST_P(PublishedModel, lists_its_tensors_in_the_order_of_the_module_tree) {
  const auto expected = nlohmann::ordered_json::parse(std::ifstream(directory_ / "expected.json"));
  int last = -1;
  for (const auto& [name, shape] : expected["tensors"].items()) {
    const auto tensor = model_.manifest.find(plain_name(name));
    ASSERT_TRUE(tensor) << name;
    EXPECT_GT(*tensor, last) << name;
    last = *tensor;
  }
}

TEST_P(PublishedModel, is_published_as_so_many_tensors_with_experts_one_by_one) {
  const auto published = KeyMap(model_.manifest).published(ExpertLayout::kPerExpert).size();
  EXPECT_EQ(published, expected_.value("language_tensors_per_expert_layout", expected_["language_tensors"]));
}

INSTANTIATE_TEST_SUITE_P(Architectures, PublishedModel,
                         testing::Values("Qwen3-30B-A3B", "Qwen3-8B", "Qwen3-32B", "Qwen3.5-35B-A3B"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace_if(
                               name, [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

TEST(Architecture, the_number_of_positions_is_what_config_json_says_if_it_does) {
  EXPECT_EQ(describe_text(config_with()).config.max_positions, 0);
  EXPECT_EQ(describe_text(config_with({{"max_position_embeddings", 40960}})).config.max_positions, 40960);
}

TEST(Architecture, both_spellings_of_a_key_give_the_same_structure_and_settings) {
  const ModelDescription old_spelling = describe_text(
      config_with({{"torch_dtype", "bfloat16"}, {"rope_scaling", nullptr}, {"rope_theta", 5000000.0}}));
  const ModelDescription new_spelling = describe_text(
      config_with({{"num_experts", nullptr},
                   {"num_local_experts", 5},
                   {"dtype", "bfloat16"},
                   {"rope_theta", nullptr},
                   {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5000000.0}}}}));
  EXPECT_EQ(old_spelling.manifest.structure_hash(), new_spelling.manifest.structure_hash());
  EXPECT_EQ(old_spelling.config.rotary.theta, 5000000.0);
  EXPECT_EQ(new_spelling.config.rotary.theta, 5000000.0);
}

TEST(Architecture, null_is_as_good_as_absent) {
  json config = test::small_moe_config();
  config["rope_scaling"] = nullptr;
  config["sliding_window"] = nullptr;
  config["mlp_only_layers"] = nullptr;
  EXPECT_EQ(describe_text(config.dump()).manifest.structure_hash(),
            describe_text(config_with()).manifest.structure_hash());
}

TEST(Architecture, code_in_a_model_directory_is_named_and_ignored) {
  EXPECT_EQ(
      describe_text(config_with({{"auto_map", {{"AutoModel", "evil.Evil"}}}})).manifest.structure_hash(),
      describe_text(config_with()).manifest.structure_hash());
}

TEST(Architecture, element_type_is_the_jobs_and_part_of_the_structure) {
  const std::string text = config_with({{"dtype", "float16"}});
  const ModelDescription wide = describe_model_text(text, "config.json", DType::kFloat32);
  EXPECT_EQ(wide.manifest[0].dtype, DType::kFloat32);
  EXPECT_NE(wide.manifest.structure_hash(), describe_text(text).manifest.structure_hash());
}

TEST(Architecture, a_tied_head_shares_the_embedding) {
  const ModelDescription model = describe_text(config_with({{"tie_word_embeddings", true}}));
  EXPECT_EQ(model.manifest[*model.manifest.find("lm_head.weight")].tied_to, "model.embed_tokens.weight");
  EXPECT_EQ(describe_text(config_with()).manifest.parameter_count() - model.manifest.parameter_count(),
            29 * 24);
}

TEST(Architecture, padding_is_a_token_or_none) {
  const auto padding = [](const json& id) {
    return describe_text(config_with({{"pad_token_id", id}})).config.padding_token;
  };
  EXPECT_EQ(padding(nullptr), -1);
  EXPECT_EQ(padding(0), 0);
  EXPECT_EQ(padding(28), 28);
  EXPECT_EQ(padding(-1), 28) << "counted from the end, as torch does";
}

TEST(Architecture, key_value_heads_that_are_not_said_are_as_many_as_transformers_takes) {
  EXPECT_EQ(describe_text(config_with({{"num_key_value_heads", nullptr}, {"num_attention_heads", 12}}))
                .config.key_value_heads,
            4);
  json dense = {{"model_type", "qwen3"}, {"num_attention_heads", 64}, {"num_key_value_heads", nullptr}};
  EXPECT_EQ(describe_text(config_with(dense)).config.key_value_heads, 32);
  json config = json::parse(config_with(dense));
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(describe_text(config.dump()).config.key_value_heads, 64) << "null is one for each head";
}

std::vector<int> moe_layers(const json& changes) {
  const ModelConfig config = describe_text(config_with(changes)).config;
  std::vector<int> found;
  for (int layer = 0; layer < config.layer_count(); ++layer)
    if (config.layers[static_cast<std::size_t>(layer)] == MlpKind::kMoe) found.push_back(layer);
  EXPECT_EQ(config.moe_layer_count(), static_cast<int>(found.size()));
  return found;
}

TEST(Architecture, dense_layers_may_lie_between_moe_layers) {
  EXPECT_EQ(moe_layers({{"num_hidden_layers", 4}}), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(moe_layers({{"num_hidden_layers", 4}, {"mlp_only_layers", {1}}}), (std::vector{0, 2, 3}));
  EXPECT_EQ(moe_layers({{"num_hidden_layers", 5}, {"decoder_sparse_step", 2}}), (std::vector{1, 3}));
  EXPECT_EQ(moe_layers({{"num_hidden_layers", 5}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {0, 3}}}),
            (std::vector{1}));
}

TEST(Architecture, a_dense_layer_has_an_mlp_in_place_of_router_and_experts) {
  const ParameterManifest manifest = describe_text(config_with({{"mlp_only_layers", {0}}})).manifest;
  EXPECT_EQ(shape_of(manifest, "model.layers.0.mlp.up_proj.weight"), (std::vector<std::int64_t>{18, 24}));
  EXPECT_FALSE(manifest.find("model.layers.0.mlp.gate.weight"));
  EXPECT_EQ(shape_of(manifest, "model.layers.1.mlp.experts.gate_up_proj"),
            (std::vector<std::int64_t>{5, 28, 24}));
  EXPECT_FALSE(manifest.find("model.layers.1.mlp.up_proj.weight"));
}

TEST(Architecture, what_is_frozen_takes_less_of_a_training_step) {
  ModelDescription model = describe_text(config_with());
  const auto active = static_cast<double>(active_parameters(model));
  EXPECT_EQ(training_operations(model, -1), 6 * active);
  for (int tensor = 0; tensor < static_cast<int>(model.manifest.tensors().size()); ++tensor)
    model.manifest.freeze(tensor);
  EXPECT_EQ(training_operations(model, -1), 4 * active) << "gradients of activations alone";
  const double head = 29 * 24 + 24;  // and the last norm
  EXPECT_EQ(training_operations(model, 2), 2 * active + 2 * head) << "down to the last layer's output";
}

}  // namespace
}  // namespace sluice
