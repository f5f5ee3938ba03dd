// What tests of a token mixer with a state share: a small model that has it in its first layer.
#pragma once

#include "decoder/decoder.hpp"
#include "model/small_model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::test {

/// A model in float32 with all its units bound, and an input of its first layer. Numbers of the layer are compared
/// within `rounding`.
class TokenMixerTest : public testing::Test {
 protected:
  TokenMixerTest(const nlohmann::json& changes, std::int64_t tokens, double rounding)
      : tokens_(tokens), rounding_(rounding), model_(changes) {
    for (int unit = 0; unit < static_cast<int>(model_.layouts.units.size()); ++unit) {
      views_.bind(unit, model_.weights.unit_data(unit));
      views_.bind_gradients(unit, reinterpret_cast<float*>(gradients_.unit_data(unit)));
    }
    views_.bind_buffers(model_.weights.buffers());
    views_.bind_whole_gradients(whole_gradients_.data());
  }

  [[nodiscard]] at::Tensor numbers(std::uint64_t seed) const {
    return at::randn({1, tokens_, config().hidden_size}, at::detail::createCPUGenerator(seed), at::kFloat);
  }
  [[nodiscard]] const ModelConfig& config() const { return model_.description.config; }
  [[nodiscard]] LayerViews layer() const { return {views_, 0, nullptr, Adapters::kUsed}; }
  [[nodiscard]] const ParameterViews& views() const { return views_; }

  /// Asks that continued(x [n, hidden], parts, cache), for one token, three, and the rest, gives what block(x, {})
  /// gives for all, also in a slot that was cleared.
  template <class Block, class Continued>
  void expect_goes_on(const Block& block, const Continued& continued) const {
    const at::NoGradGuard no_grad;
    const at::Tensor whole = block(x_, ops::Documents())[0];
    SequenceCache cache(config(), 2, tokens_, DType::kFloat32, at::kCPU);
    for (int again = 0; again < 2; ++again) {
      std::vector<at::Tensor> outs;
      std::int64_t begin = 0;
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, tokens_ - 4}) {
        const std::vector<SequencePart> part{{1, begin, count}};
        outs.push_back(continued(x_[0].narrow(0, begin, count), part, cache));
        begin += count;
      }
      EXPECT_TRUE(at::allclose(at::cat(outs), whole, 0, rounding_)) << again;
      cache.clear(1);
    }
    EXPECT_FALSE(cache.can_be_shortened());
  }

  /// Asks that block(x, documents), and its gradient, give for packed documents, which begin at these tokens, what
  /// they give for each alone.
  template <class Block>
  void expect_documents_apart(const Block& block, const std::vector<std::int64_t>& begins) const {
    at::Tensor first = at::zeros({1, tokens_}, at::kLong);
    for (const std::int64_t begin : begins) first.narrow(1, begin, tokens_ - begin).fill_(begin);
    const at::Tensor d_out = numbers(2), packed = x_.clone().requires_grad_();
    const at::Tensor out = block(packed, ops::Documents{.first = first});
    const at::Tensor d_packed = torch::autograd::grad({out}, {packed}, {d_out}).front();
    for (std::size_t document = 0; document < begins.size(); ++document) {
      const std::int64_t begin = begins[document];
      const std::int64_t count = (document + 1 < begins.size() ? begins[document + 1] : tokens_) - begin;
      const at::Tensor alone = x_.narrow(1, begin, count).clone().requires_grad_();
      const at::Tensor expected = block(alone, ops::Documents());
      EXPECT_TRUE(at::allclose(out.narrow(1, begin, count), expected, 0, rounding_));
      const at::Tensor d_alone =
          torch::autograd::grad({expected}, {alone}, {d_out.narrow(1, begin, count)}).front();
      EXPECT_TRUE(at::allclose(d_packed.narrow(1, begin, count), d_alone, 0, rounding_));
    }
  }

 private:
  std::int64_t tokens_;
  double rounding_;
  SmallModel model_;
  ShardArena gradients_{model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate, "gradients"};
  std::vector<float> whole_gradients_ =
      std::vector<float>(static_cast<std::size_t>(model_.layouts.trained_buffers.count()));
  ParameterViews views_{model_.description.manifest, model_.plan, 0, DType::kFloat32, MemoryKind::kPrivate};
  at::Tensor x_ = numbers(1);
};

}  // namespace sluice::test
