#include "decoder/mamba2_block.hpp"

#include "decoder/decoder.hpp"
#include "model/small_model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kMambaTokens = 90, kMambaHidden = 24;
constexpr double kMambaRounding = 5e-6;

/// A decoder whose first layer is Mamba-2 with two groups of heads, with its units bound for good.
class Mamba2BlockTest : public testing::Test {
 protected:
  Mamba2BlockTest() {
    for (int unit = 0; unit < static_cast<int>(model_.layouts.units.size()); ++unit) {
      views_.bind(unit, model_.weights.unit_data(unit));
      views_.bind_gradients(unit, reinterpret_cast<float*>(gradients_.unit_data(unit)));
    }
    views_.bind_buffers(model_.weights.buffers());
    views_.bind_whole_gradients(whole_gradients_.data());
  }

  [[nodiscard]] static at::Tensor numbers(at::IntArrayRef shape, std::uint64_t seed) {
    return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
  }
  [[nodiscard]] at::Tensor block(const at::Tensor& x, const ops::Documents& documents = {}) const {
    return mamba2_block(model_.description.config, parameters_, x, documents);
  }

  test::SmallModel model_{nlohmann::json{{"model_type", "granitemoehybrid"},
                                         {"layer_types", {"mamba", "attention"}},
                                         {"num_local_experts", 4},
                                         {"num_experts_per_tok", 2},
                                         {"shared_intermediate_size", 8},
                                         {"mamba_n_heads", 4},
                                         {"mamba_n_groups", 2},
                                         {"mamba_d_state", 6}}};
  ShardArena gradients_{model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate, "gradients"};
  ParameterViews views_{model_.description.manifest, model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate};
  std::vector<float> whole_gradients_ =
      std::vector<float>(static_cast<std::size_t>(model_.layouts.trained_buffers.count()));
  Mamba2Parameters parameters_ =
      mamba2_parameters(model_.description.config, LayerViews(views_, 0, nullptr, Adapters::kUsed));
  at::Tensor x_ = numbers({1, kMambaTokens, kMambaHidden}, 1);
};

TEST_F(Mamba2BlockTest, one_token_then_three_then_the_rest_give_what_the_whole_gives) {
  const at::NoGradGuard no_grad;
  const at::Tensor whole = block(x_)[0];
  SequenceCache cache(model_.description.config, 2, kMambaTokens, DType::kFloat32, at::kCPU);
  for (int again = 0; again < 2; ++again) {  // a slot that is cleared begins anew
    std::vector<at::Tensor> parts;
    std::int64_t begin = 0;
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, kMambaTokens - 4}) {
      const std::vector<SequencePart> part{{1, begin, count}};
      parts.push_back(cached_mamba2_block(model_.description.config, parameters_,
                                          x_[0].narrow(0, begin, count), part, cache.delta_net(0)));
      begin += count;
    }
    EXPECT_TRUE(at::allclose(at::cat(parts), whole, 0, kMambaRounding)) << again;
    cache.clear(1);
  }
  EXPECT_FALSE(cache.can_be_shortened());
}

TEST_F(Mamba2BlockTest, packed_documents_do_not_see_each_other_forward_or_backward) {
  const std::vector<std::int64_t> begins{0, 2, 3, 70};
  at::Tensor first = at::zeros({1, kMambaTokens}, at::kLong);
  for (const std::int64_t begin : begins) first.narrow(1, begin, kMambaTokens - begin).fill_(begin);
  const at::Tensor d_out = numbers({1, kMambaTokens, kMambaHidden}, 2);
  const at::Tensor packed = x_.clone().requires_grad_();
  const at::Tensor out = block(packed, {.first = first});
  const at::Tensor d_packed = torch::autograd::grad({out}, {packed}, {d_out}).front();
  for (std::size_t document = 0; document < begins.size(); ++document) {
    const std::int64_t begin = begins[document];
    const std::int64_t count = (document + 1 < begins.size() ? begins[document + 1] : kMambaTokens) - begin;
    const at::Tensor alone = x_.narrow(1, begin, count).clone().requires_grad_();
    const at::Tensor expected = block(alone);
    EXPECT_TRUE(at::allclose(out.narrow(1, begin, count), expected, 0, kMambaRounding));
    const at::Tensor d_alone =
        torch::autograd::grad({expected}, {alone}, {d_out.narrow(1, begin, count)}).front();
    EXPECT_TRUE(at::allclose(d_packed.narrow(1, begin, count), d_alone, 0, kMambaRounding));
  }
}

}  // namespace
}  // namespace sluice
