#include "model/families/mistral4.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace sluice {
namespace {

using namespace test;

json mistral4() { return published_config("Mistral-Small-4"); }

TEST(Mistral4, chooses_by_a_softmax_and_divides_weights_by_their_sum) {
  const ModelDescription model = described(mistral4());
  EXPECT_EQ(model.config.router,
            (RouterConfig{.normalize = true, .epsilon = 1e-20, .knows_balancing_loss = false}));
  EXPECT_EQ(shape_of(model, "model.layers.0.mlp.gate.weight"), (Shape{128, 4096}));
  EXPECT_EQ(shape_of(model, "model.layers.0.self_attn.q_b_proj.weight"), (Shape{32 * 128, 1024}));
}

TEST(Mistral4, half_of_a_head_turns) {
  const ModelConfig config = described(mistral4()).config;
  EXPECT_EQ(config.rotary.dim, 64);
  EXPECT_TRUE(config.rotary.interleaved);
  const double grown = 0.1 * std::log(128.0) + 1;
  EXPECT_DOUBLE_EQ(config.latent_attention.score_factor, grown * grown);
  EXPECT_EQ(config.rotary.magnitude, 1);
}

TEST(Mistral4, another_part_of_a_head_than_the_turning_one_is_refused) {
  json config = mistral4();
  config["rope_parameters"]["partial_rotary_factor"] = 0.25;
  expect_error(ExitCode::kBadData, {"partial_rotary_factor", "qk_rope_head_dim = 64"},
               [&] { static_cast<void>(described(config)); });
  config = mistral4();
  config["head_dim"] = 64;
  expect_error(ExitCode::kBadData, {"head_dim", "128"}, [&] { static_cast<void>(described(config)); });
}

TEST(Mistral4, sequences_end_where_queries_begin_to_grow) {
  json config = mistral4();
  const SequenceLimit limit = described(config).config.sequence_limit;
  EXPECT_EQ(limit.tokens, 8192);
  EXPECT_EQ(limit.key, "original_max_position_embeddings");
  config["rope_parameters"].erase("llama_4_scaling_beta");
  EXPECT_EQ(described(config).config.sequence_limit.tokens, 0);
}

TEST(Mistral4, absent_rope_parameters_are_transformers_own) {
  json config = mistral4();
  config.erase("rope_parameters");
  EXPECT_EQ(described(config).config.rotary, described(mistral4()).config.rotary);
  EXPECT_EQ(described(config).config.sequence_limit.tokens, 8192);
}

TEST(Mistral4, is_published_beside_a_vision_tower) {
  json wrapped{
      {"model_type", "mistral3"}, {"text_config", mistral4()}, {"vision_config", {{"hidden_size", 8}}}};
  EXPECT_EQ(described(wrapped).config.experts, 128);
  wrapped["text_config"]["model_type"] = "mistral";
  expect_error(ExitCode::kBadData, {"text_config", "model_type", "'mistral4'"},
               [&] { static_cast<void>(described(wrapped)); });
}

}  // namespace
}  // namespace sluice
