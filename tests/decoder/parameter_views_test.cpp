#include "decoder/parameter_views.hpp"

#include "base/error.hpp"
#include "model/small_model.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>
#include <vector>

namespace sluice {
namespace {

using test::SmallModel;

std::vector<float> counting(const FlatLayout& unit, float first) {
  std::vector<float> values(static_cast<std::size_t>(unit.elements()));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::byte* bytes(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }

class ParameterViewsTest : public testing::Test {
 protected:
  [[nodiscard]] TensorHome home(const std::string& name) const {
    return model_.layouts.homes[static_cast<std::size_t>(*model_.description.manifest.find(name))];
  }
  [[nodiscard]] const FlatLayout& unit(const TensorHome& home) const {
    return model_.layouts.units[static_cast<std::size_t>(home.unit)];
  }
  [[nodiscard]] const Placement& placement(const TensorHome& home) const {
    return unit(home).placements()[static_cast<std::size_t>(home.placement)];
  }

  SmallModel model_;
  ParameterViews views_{model_.description.manifest, model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate};
};

constexpr const char* kQueries = "model.layers.1.self_attn.q_proj.weight";
constexpr const char* kGateUp = "model.layers.1.mlp.experts.gate_up_proj";

TEST_F(ParameterViewsTest, unbound_tensors_have_a_shape_and_no_memory) {
  const ops::Parameter& queries = views_[kQueries];
  EXPECT_EQ(queries.value.sizes(), at::IntArrayRef({40, 24}));
  EXPECT_EQ(queries.grad.sizes(), at::IntArrayRef({40, 24}));
  EXPECT_EQ(queries.value.storage().data(), nullptr);
  EXPECT_EQ(queries.grad.storage().data(), nullptr);
}

TEST_F(ParameterViewsTest, see_the_memory_they_are_bound_to_even_through_older_copies) {
  const at::Tensor queries = views_[kQueries].value;
  const TensorHome at = home(kQueries);
  const auto offset = static_cast<float>(placement(at).offset);
  std::vector<float> first = counting(unit(at), 0);
  std::vector<float> second = counting(unit(at), 5000);
  views_.bind(at.unit, bytes(first));
  EXPECT_EQ(queries[2][3].item<float>(), offset + 2 * 24 + 3);
  views_.bind(at.unit, bytes(second));
  EXPECT_EQ(queries[2][3].item<float>(), 5000 + offset + 2 * 24 + 3);
  views_.unbind(at.unit);
  EXPECT_EQ(queries.storage().data(), nullptr);
}

TEST_F(ParameterViewsTest, writes_to_gradients_reach_the_memory_and_leave_values_alone) {
  const TensorHome at = home(kQueries);
  std::vector<float> gradients(static_cast<std::size_t>(unit(at).elements()));
  views_.bind_gradients(at.unit, gradients.data());
  views_[kQueries].grad[0][1].fill_(4);
  EXPECT_EQ(gradients[static_cast<std::size_t>(placement(at).offset + 1)], 4.0F);
  EXPECT_EQ(views_[kQueries].value.storage().data(), nullptr);
  views_.unbind_gradients(at.unit);
  EXPECT_EQ(views_[kQueries].grad.storage().data(), nullptr);
}

TEST_F(ParameterViewsTest, fused_experts_step_from_expert_to_expert) {
  const TensorHome at = home(kGateUp);
  std::vector<float> values = counting(unit(at), 0);
  views_.bind(at.unit, bytes(values));
  const at::Tensor& gate_up = views_[kGateUp].value;
  ASSERT_EQ(gate_up.sizes(), at::IntArrayRef({5, 28, 24}));
  EXPECT_GT(gate_up.stride(0), 28 * 24) << "the down projection lies between";
  for (std::int64_t expert = 0; expert < 5; ++expert) {
    EXPECT_TRUE(gate_up[expert].is_contiguous());
    EXPECT_EQ(gate_up[expert][27][23].item<float>(),
              static_cast<float>(expert * placement(at).block_stride + placement(at).offset + 28 * 24 - 1));
  }
}

TEST_F(ParameterViewsTest, have_the_experts_that_the_rank_holds) {
  const TensorHome at = home(kGateUp);
  const ShardPlan plan(model_.layouts, {.world = 8, .expert_parallel = 4});
  std::int64_t experts = 0;
  for (int rank = 0; rank < 4; ++rank) {
    ParameterViews views(model_.description.manifest, plan, rank, DType::kFloat32, MemoryKind::kPrivate);
    const Range held = plan.gathered_range(at.unit, rank);
    std::vector<float> values(static_cast<std::size_t>(held.count()));
    std::iota(values.begin(), values.end(), static_cast<float>(held.begin));
    views.bind(at.unit, bytes(values));
    const at::Tensor& gate_up = views[kGateUp].value;
    for (std::int64_t i = 0; i < gate_up.size(0); ++i, ++experts)
      EXPECT_EQ(gate_up[i][0][1].item<float>(),
                static_cast<float>(experts * placement(at).block_stride + placement(at).offset + 1));
    EXPECT_EQ(views[kQueries].value.sizes(), at::IntArrayRef({40, 24}));
  }
  EXPECT_EQ(experts, 5) << "2, 1, 1, 1";
}

TEST_F(ParameterViewsTest, refuse_names_that_are_unknown_or_without_storage) {
  EXPECT_THROW(static_cast<void>(views_["model.layers.9.mlp.gate.weight"]), Error);
  EXPECT_THROW(static_cast<void>(views_["model.rotary_emb.inv_freq"]), Error);
}

TEST(ParameterViews, a_tied_head_is_the_embedding) {
  const SmallModel model(nlohmann::json::object({{"tie_word_embeddings", true}}));
  const ParameterViews views(model.description.manifest, model.plan, 0, DType::kBFloat16,
                             MemoryKind::kPrivate);
  const ops::Parameter& head = views["lm_head.weight"];
  EXPECT_TRUE(head.value.is_same(views["model.embed_tokens.weight"].value));
  EXPECT_EQ(head.value.scalar_type(), at::kBFloat16);
  EXPECT_EQ(head.grad.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace sluice
