#include "adapter/peft_targets.hpp"

#include "support/expect_error.hpp"

#include <cmath>

namespace sluice {
namespace {

using Names = std::vector<std::string>;

const ParameterManifest kPlainTree;
const std::string kQuery = "model.layers.1.self_attn.q_proj";

TEST(PeftTargets, names_are_ends_behind_a_dot) {
  PeftConfig config;
  config.target_modules = Names{"q_proj", "mlp.up_proj", "model.layers.0.self_attn.k_proj"};
  const PeftTargets targets(config, kPlainTree);
  EXPECT_TRUE(targets.means_module(kQuery));
  EXPECT_TRUE(targets.means_module("model.layers.3.mlp.up_proj"));
  EXPECT_TRUE(targets.means_module("model.layers.0.self_attn.k_proj"));
  EXPECT_FALSE(targets.means_module("model.layers.1.self_attn.k_proj"));
  EXPECT_FALSE(targets.means_module("model.layers.1.self_attn.eq_proj"));
  EXPECT_FALSE(targets.means_module("model.layers.3.mlp.shared_expert.up_proj"));
}

TEST(PeftTargets, names_may_be_those_of_the_models_tree_and_of_no_other) {
  const std::string experts = "model.layers.0.mlp.experts.down_proj";
  PeftConfig config;
  config.target_parameters = {"feed_forward.experts.down_proj"};
  ParameterManifest lfm2;
  lfm2.set_tree_experts(kLfm2Experts);
  EXPECT_TRUE(PeftTargets(config, lfm2).means_parameter(experts));
  EXPECT_FALSE(PeftTargets(config, kPlainTree).means_parameter(experts));
}

TEST(PeftTargets, one_text_is_an_expression_over_whole_names) {
  PeftConfig config;
  config.target_modules = R"(.*\.layers\.[13]\.self_attn\.(q|k)_proj)";
  const PeftTargets targets(config, kPlainTree);
  EXPECT_TRUE(targets.means_module(kQuery));
  EXPECT_FALSE(targets.means_module("model.layers.2.self_attn.q_proj"));
  EXPECT_FALSE(targets.means_module(kQuery + ".more"));
}

TEST(PeftTargets, leaves_out_excluded_modules_and_other_layers) {
  PeftConfig config;
  config.target_modules = Names{"q_proj", "model.layers.0.self_attn.q_proj"};
  config.exclude_modules = Names{"layers.2.self_attn.q_proj"};
  config.layers_to_transform = {1, 2};
  const PeftTargets targets(config, kPlainTree);
  EXPECT_TRUE(targets.means_module(kQuery));
  EXPECT_FALSE(targets.means_module("model.layers.2.self_attn.q_proj"));
  EXPECT_FALSE(targets.means_module("model.layers.3.self_attn.q_proj"));
  EXPECT_TRUE(targets.means_module("model.layers.0.self_attn.q_proj")) << "a whole name, whatever the layers";
}

TEST(PeftTargets, the_first_pattern_that_matches_an_end_counts) {
  PeftConfig config;
  config.rank = 4;
  config.alpha = 8;
  config.rank_pattern = {
      {"q_proj", 2}, {R"(layers\.1\.self_attn\.q_proj)", 9}, {R"(^model\.layers\.2\..*)", 6}};
  config.alpha_pattern = {{R"(self_attn\.q_proj)", 1.0}};
  const PeftTargets targets(config, kPlainTree);
  EXPECT_EQ(targets.rank_of(kQuery), 2);
  EXPECT_EQ(targets.scale_of(kQuery), 0.5);
  EXPECT_EQ(targets.rank_of("model.layers.2.self_attn.k_proj"), 6);
  EXPECT_EQ(targets.rank_of("model.layers.1.self_attn.eq_proj"), 4);
  EXPECT_EQ(targets.scale_of("model.layers.1.self_attn.eq_proj"), 2);
}

TEST(PeftTargets, rank_stabilised_scales_divide_by_the_root) {
  PeftConfig config;
  config.rank = 3;
  config.alpha = 5;
  config.rslora = true;
  EXPECT_DOUBLE_EQ(PeftTargets(config, kPlainTree).scale_of(kQuery), 5 / std::sqrt(3.0));
}

TEST(PeftTargets, refuses_patterns_that_are_none_or_never_end) {
  PeftConfig config;
  config.source = "adapter_config.json";
  config.rank_pattern = {{"(", 1}};
  test::expect_error(ExitCode::kBadData, {"adapter_config.json: rank_pattern", "is not a valid pattern"},
                     [&] { static_cast<void>(PeftTargets(config, kPlainTree)); });
  config.rank_pattern = {{"((_|[a-z])*)*[!?]", 1}};
  test::expect_error(
      ExitCode::kBadData, {"adapter_config.json: rank_pattern", "cannot be matched against"}, [&] {
        static_cast<void>(
            PeftTargets(config, kPlainTree).rank_of("model.layers.1.self_attn_of_a_long_name_q_proj"));
      });
}

TEST(PeftTargets, all_linear_is_a_word_and_no_expression) {
  for (const char* text : {"all-linear", "All-Linear"}) {
    PeftConfig config;
    config.target_modules = text;
    config.exclude_modules = Names{"k_proj"};
    const PeftTargets targets(config, kPlainTree);
    EXPECT_TRUE(targets.means_all_linear());
    EXPECT_TRUE(targets.means_module(kQuery));
    EXPECT_FALSE(targets.means_module("model.layers.1.self_attn.k_proj"));
  }
  PeftConfig list;
  list.target_modules = Names{"all-linear"};
  EXPECT_FALSE(PeftTargets(list, kPlainTree).means_module(kQuery));
}

TEST(PeftTargets, several_projections_multiply_rank_and_alpha_unless_patterns_give_them) {
  PeftConfig config;
  config.rank = 4;
  config.alpha = 8;
  config.rslora = true;
  config.rank_pattern = {{"down_proj", 6}};
  const PeftTargets targets(config, kPlainTree);
  EXPECT_EQ(targets.rank_of("experts.gate_up_proj", 2), 8);
  EXPECT_DOUBLE_EQ(targets.scale_of("experts.gate_up_proj", 2), 16 / std::sqrt(8.0));
  EXPECT_EQ(targets.rank_of("experts.down_proj", 2), 6);
}

}  // namespace
}  // namespace sluice
