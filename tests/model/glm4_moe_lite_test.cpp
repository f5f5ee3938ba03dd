#include "model/families/glm4_moe_lite.hpp"

#include "model/family_test.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using namespace test;

TEST(Glm4MoeLite, absent_keys_have_transformers_defaults) {
  json shape = published_config("GLM-4.7-Flash");
  for (const char* key :
       {"num_key_value_heads", "rms_norm_eps", "norm_topk_prob", "routed_scaling_factor", "n_shared_experts",
        "n_group", "topk_group", "first_k_dense_replace", "mlp_layer_types", "rope_interleave"})
    shape.erase(key);
  const ModelConfig config = described(shape).config;
  EXPECT_EQ(config.key_value_heads, 20);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_TRUE(config.router.normalize);
  EXPECT_EQ(config.router.scale, 1.8);
  EXPECT_EQ(config.router.groups, 1);
  EXPECT_EQ(config.moe_layer_count(), config.layer_count() - 1);
  EXPECT_EQ(config.shared_expert_intermediate_size, 1536);
  EXPECT_TRUE(config.rotary.interleaved);
}

}  // namespace
}  // namespace sluice
