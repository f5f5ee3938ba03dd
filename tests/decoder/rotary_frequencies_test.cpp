// Frequencies against numbers of transformers' ROPE_INIT_FUNCTIONS, for heads of 16.
#include "decoder/rotary_frequencies.hpp"

#include "model/architecture.hpp"
#include "model/config_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice {
namespace {

using nlohmann::json;
using Frequencies = std::array<float, 8>;

void expect_frequencies(const json& scaling, double magnitude, const Frequencies& expected) {
  SCOPED_TRACE(scaling.dump());
  const std::string text = test::config_with({{"head_dim", 16}, {"rope_parameters", scaling}});
  const RotaryConfig rotary = describe_model_text(text, "config.json", DType::kBFloat16).config.rotary;
  EXPECT_DOUBLE_EQ(rotary.magnitude, magnitude);
  const at::Tensor frequencies = rotary_frequencies(rotary);
  ASSERT_EQ(frequencies.sizes(), at::IntArrayRef({8}));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_FLOAT_EQ(frequencies.data_ptr<float>()[i], expected[i]) << "pair " << i;
}

TEST(RotaryFrequencies, fall_with_theta_where_nothing_is_scaled) {
  expect_frequencies({{"rope_type", "default"}, {"rope_theta", 10000.0}}, 1,
                     {1.0F, 0.316227764F, 0.100000001F, 0.0316227786F, 0.00999999978F, 0.00316227786F,
                      0.00100000005F, 0.000316227786F});
}

TEST(RotaryFrequencies, are_divided_by_the_factor_of_a_linear_scaling) {
  expect_frequencies({{"rope_type", "linear"}, {"rope_theta", 10000.0}, {"factor", 8.0}}, 1,
                     {0.125F, 0.0395284705F, 0.0125000002F, 0.00395284733F, 0.00124999997F, 0.000395284733F,
                      0.000125000006F, 3.95284733e-05F});
  expect_frequencies({{"rope_type", "linear"}, {"rope_theta", 1e6}, {"factor", 3.0}}, 1,
                     {0.333333343F, 0.059275981F, 0.0105409259F, 0.00187447108F, 0.000333333359F,
                      5.92759789e-05F, 1.05409244e-05F, 1.8744712e-06F});
}

TEST(RotaryFrequencies, of_yarn_stay_divide_or_blend) {
  expect_frequencies({{"rope_type", "yarn"},
                      {"rope_theta", 10000.0},
                      {"factor", 4.0},
                      {"original_max_position_embeddings", 32},
                      {"beta_fast", 4.0},
                      {"beta_slow", 0.25}},
                     1.138629436111989,
                     {1.0F, 0.237170815F, 0.049999997F, 0.00790569466F, 0.00249999994F, 0.000790569466F,
                      0.000250000012F, 7.90569466e-05F});
  expect_frequencies({{"rope_type", "yarn"},
                      {"rope_theta", 1e6},
                      {"factor", 2.5},
                      {"original_max_position_embeddings", 4096},
                      {"truncate", false},
                      {"mscale", 0.7},
                      {"mscale_all_dim", 0.5}},
                     1.017523006227444,
                     {1.0F, 0.177827939F, 0.0292154439F, 0.00351407053F, 0.00039999999F, 7.11311732e-05F,
                      1.26491104e-05F, 2.24936525e-06F});
}

TEST(RotaryFrequencies, of_llama3_stay_divide_or_blend) {
  expect_frequencies({{"rope_type", "llama3"},
                      {"rope_theta", 10000.0},
                      {"factor", 4.0},
                      {"original_max_position_embeddings", 32},
                      {"low_freq_factor", 0.5},
                      {"high_freq_factor", 2.0}},
                     1,
                     {1.0F, 0.254647911F, 0.0254647899F, 0.00790569466F, 0.00249999994F, 0.000790569466F,
                      0.000250000012F, 7.90569466e-05F});
  expect_frequencies({{"rope_type", "llama3"},
                      {"rope_theta", 5e6},
                      {"factor", 2.0},
                      {"original_max_position_embeddings", 131072},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 32.0}},
                     1,
                     {1.0F, 0.14542155F, 0.0211474262F, 0.00307529117F, 0.000283686444F, 3.28913666e-05F,
                      4.72870806e-06F, 6.87656041e-07F});
}

}  // namespace
}  // namespace sluice
