#include "adapter/peft_layout.hpp"

#include "model/architecture.hpp"
#include "support/source_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

class PeftLayout : public testing::Test {
 protected:
  void adapt(const std::string& base, std::int64_t rank = 4, double scale = 2) {
    adapters_.tensors.push_back({base, rank, scale});
  }
  [[nodiscard]] json config(bool rslora = false) const {
    return json::parse(peft_config_text(adapters_, manifest_, {rslora, tree_}, "base"));
  }
  [[nodiscard]] Names names() const {
    Names out;
    for (const PeftTensor& tensor : peft_tensors(adapters_, manifest_, {false, tree_}))
      out.push_back(tensor.entry.name);
    return out;
  }

  ParameterManifest manifest_ = describe_model(fixture_folder() / "qwen3-moe-tiny", DType::kFloat32).manifest;
  AdapterDescription adapters_;
  std::string tree_ = "model.";
};

TEST_F(PeftLayout, one_name_stands_for_all_layers_where_all_are_adapted) {
  for (int layer = 0; layer < 3; ++layer) {
    adapt(fmt::format("model.layers.{}.self_attn.q_proj.weight", layer));
    adapt(fmt::format("model.layers.{}.mlp.gate.weight", layer));
    adapt(fmt::format("model.layers.{}.mlp.experts.down_proj", layer));
  }
  adapt("model.layers.1.self_attn.k_proj.weight");
  adapt("lm_head.weight");
  EXPECT_EQ(config()["target_modules"],
            json(Names{"lm_head", "model.layers.1.self_attn.k_proj", "self_attn.q_proj"}));
  EXPECT_EQ(config()["target_parameters"], json(Names{"mlp.experts.down_proj", "mlp.gate.weight"}));
}

TEST_F(PeftLayout, ranks_and_alphas_are_patterns_where_they_differ) {
  adapt("model.layers.0.self_attn.q_proj.weight", 4, 2);
  adapt("model.layers.1.self_attn.q_proj.weight", 4, 2);
  adapt("model.layers.2.self_attn.q_proj.weight", 2, 4);
  adapt("lm_head.weight", 3, 0.5);
  const json written = config();
  EXPECT_EQ(written["r"], 4);
  EXPECT_EQ(written["lora_alpha"], 8);
  EXPECT_EQ(written["rank_pattern"], json({{R"(model\.layers\.2\.self_attn\.q_proj)", 2}, {"lm_head", 3}}));
  EXPECT_EQ(written["alpha_pattern"], json({{"lm_head", 1.5}}));
}

TEST_F(PeftLayout, alpha_is_a_whole_number_again_with_rank_stabilised_scales) {
  adapt("lm_head.weight", 3, 5 / std::sqrt(3.0));
  EXPECT_EQ(config(true)["lora_alpha"].dump(), "5");
  EXPECT_EQ(config(true)["use_rslora"], true);
}

TEST_F(PeftLayout, names_are_those_of_the_tree_that_is_asked_for) {
  tree_ = "model.language_model.";
  adapt("model.layers.1.self_attn.q_proj.weight");
  adapt("lm_head.weight");
  EXPECT_EQ(names()[0], "base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(names()[2], "base_model.model.lm_head.lora_A.weight");
  EXPECT_EQ(config()["target_modules"],
            json(Names{"lm_head", "model.language_model.layers.1.self_attn.q_proj"}));
}

TEST_F(PeftLayout, dense_layers_beside_experts_are_parameters_without_dropout) {
  manifest_ = describe_model(fixture_folder() / "qwen3-moe-mixed", DType::kFloat32).manifest;
  adapters_.dropout = 0.1;
  adapt("model.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(config()["lora_dropout"], 0.1);
  adapt("model.layers.1.mlp.gate_proj.weight");
  EXPECT_EQ(config()["target_parameters"], json(Names{"mlp.gate_proj.weight"}));
  EXPECT_EQ(config()["lora_dropout"], 0);
  EXPECT_EQ(names()[2], "base_model.model.model.layers.1.mlp.gate_proj.lora_A.weight");
}

TEST_F(PeftLayout, projections_of_shared_experts_are_parameters_and_their_gate_is_a_module) {
  manifest_ = describe_model(fixture_folder() / "qwen2_moe-tiny", DType::kFloat32).manifest;
  adapt("model.layers.0.mlp.shared_expert.up_proj.weight");
  adapt("model.layers.0.mlp.shared_expert_gate.weight");
  EXPECT_EQ(config()["target_parameters"], json(Names{"mlp.shared_expert.up_proj.weight"}));
  EXPECT_EQ(config()["target_modules"], json(Names{"mlp.shared_expert_gate"}));
}

TEST_F(PeftLayout, a_matrix_that_is_published_joined_has_one_pair_of_that_name) {
  manifest_ = describe_model(fixture_folder() / "qwen3_next-tiny", DType::kFloat32).manifest;
  const std::string module = "linear_attn.in_proj_qkvz";
  for (const int layer : {0, 2}) adapt(fmt::format("model.layers.{}.{}.weight", layer, module));
  EXPECT_EQ(config()["target_modules"], json(Names{module}));
  EXPECT_EQ(names().size(), 4u);
  EXPECT_EQ(names()[0], "base_model.model.model.layers.0." + module + ".lora_A.weight");
  const auto tensors = peft_tensors(adapters_, manifest_, {false, tree_});
  const std::vector<PeftPart>& rows = tensors[1].parts;  // rows of q, k, v and z for each of two heads
  EXPECT_EQ(rows.size(), 8u);
  EXPECT_EQ(rows.front().tensor, "model.layers.0.linear_attn.in_proj_qkv.lora_B.weight");
  EXPECT_EQ(rows.back().tensor, "model.layers.0.linear_attn.in_proj_z.lora_B.weight");
  EXPECT_EQ(rows.back().end(), element_count(tensors[1].entry.shape));
}

TEST_F(PeftLayout, the_inner_of_two_wrappers_is_of_gate_and_up) {
  adapt("model.layers.0.mlp.experts.gate_up_proj");
  adapt("model.layers.0.mlp.experts.down_proj");
  adapt("model.layers.1.mlp.experts.gate_up_proj");
  const std::string layers = "base_model.model.model.layers.";
  EXPECT_EQ(names(), (Names{layers + "0.mlp.experts.base_layer.lora_A.weight",
                            layers + "0.mlp.experts.base_layer.lora_B.weight",
                            layers + "0.mlp.experts.lora_A.weight", layers + "0.mlp.experts.lora_B.weight",
                            layers + "1.mlp.experts.lora_A.weight", layers + "1.mlp.experts.lora_B.weight"}));
}

}  // namespace
}  // namespace sluice
