#include "model/module_patterns.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Rule = ModulePatterns::Rule;

TEST(ModulePatterns, take_a_pattern_of_transformers_up_to_a_border_between_parts) {
  const ModulePatterns gate{
      {"model.layers.1.mlp.gate", "model.layers.*.self_attn", "lm_head"}, Rule::kParts, ""};
  for (const char* module :
       {"model.layers.1.mlp.gate", "model.layers.11.self_attn.q_proj", "lm_head", "model.lm_head"})
    EXPECT_TRUE(gate.contain(module)) << module;
  for (const char* module :
       {"model.layers.1.mlp.gate_proj", "model.layers.11.mlp.gate", "model.layers.1.self_attn_norm"})
    EXPECT_FALSE(gate.contain(module)) << module;
}

TEST(ModulePatterns, take_whole_names_or_expressions_of_compressed_tensors) {
  const ModulePatterns ignored{{"lm_head", "re:.*mlp.gate$", "re:.*self_attn.*"}, Rule::kNames, ""};
  for (const char* module : {"lm_head", "model.layers.3.mlp.gate", "model.layers.3.self_attn.q_proj"})
    EXPECT_TRUE(ignored.contain(module)) << module;
  for (const char* module : {"model.lm_head", "model.layers.3.mlp.gate_proj", "lm_head.other"})
    EXPECT_FALSE(ignored.contain(module)) << module;
}

TEST(ModulePatterns, prefer_whole_names_then_the_first_expression_in_the_order_of_texts) {
  const ModulePatterns targets{
      {"re:.*q_proj", "re:.*attn.*", "model.layers.0.self_attn.q_proj", "Linear"}, Rule::kNames, ""};
  EXPECT_EQ(targets.match("model.layers.0.self_attn.q_proj"), "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(targets.match("model.layers.1.self_attn.q_proj"), "re:.*attn.*");
  EXPECT_EQ(targets.match("model.layers.1.mlp.up_proj"), std::nullopt);
}

TEST(ModulePatterns, name_what_is_no_expression) {
  const ModulePatterns broken{{"re:("}, Rule::kNames, "config.json: ignore"};
  test::expect_error(ExitCode::kBadData, {"config.json: ignore", "re:("},
                     [&] { static_cast<void>(broken.contain("lm_head")); });
}

}  // namespace
}  // namespace sluice
