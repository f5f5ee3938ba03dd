#include "ops/buffers/optimizer.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>
#include <torch/optim.h>

namespace sluice::ops {
namespace {

constexpr std::int64_t kCount = 10007;

struct State {
  at::Tensor master = numbers({kCount});
  at::Tensor m = at::zeros({kCount});
  at::Tensor v = at::zeros({kCount});
  void step(const at::Tensor& grad, const AdamWStep& step, void* weights, DType dtype) {
    adamw_update(master.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(), grad.data_ptr<float>(),
                 kCount, step, weights, dtype);
  }
};

AdamWStep step_number(int t) {
  AdamWStep step{1e-2, 0.9, 0.95, 1e-8, 0.1};
  step.bias_correction1 = 1 - std::pow(step.beta1, t);
  step.bias_correction2 = 1 - std::pow(step.beta2, t);
  return step;
}

TEST(AdamW, follows_torch_over_several_steps) {
  State state;
  const at::Tensor leaf = state.master.clone().requires_grad_();
  torch::optim::AdamW reference({leaf},
                                torch::optim::AdamWOptions(1e-2).betas({0.9, 0.95}).weight_decay(0.1));
  for (int t = 1; t <= 5; ++t) {
    const at::Tensor grad = numbers({kCount}, at::kFloat, static_cast<std::uint64_t>(t));
    AdamWStep step = step_number(t);
    step.grad_scale = 0.25;
    leaf.mutable_grad() = grad * 0.25;
    reference.step();
    state.step(grad, step, nullptr, DType::kFloat32);
  }
  expect_close(state.master, leaf.detach(), 1e-6);
}

TEST(AdamW, writes_the_weights_rounded_to_their_dtype) {
  State state;
  at::Tensor narrow = at::zeros({kCount}, at::kBFloat16);
  state.step(numbers({kCount}, at::kFloat, 3), step_number(1), narrow.data_ptr(), DType::kBFloat16);
  EXPECT_TRUE(narrow.equal(state.master.to(at::kBFloat16)));
  at::Tensor wide = at::zeros({kCount});
  state.step(numbers({kCount}, at::kFloat, 3), step_number(2), wide.data_ptr(), DType::kFloat32);
  EXPECT_TRUE(wide.equal(state.master));
}

TEST(AdamW, gives_the_same_numbers_however_a_shard_is_cut) {
  State whole;
  State parts;
  const at::Tensor grad = numbers({kCount}, at::kFloat, 3);
  whole.step(grad, step_number(1), nullptr, DType::kFloat32);
  for (std::int64_t begin = 0; begin < kCount; begin += 777) {
    adamw_update(parts.master.data_ptr<float>() + begin, parts.m.data_ptr<float>() + begin,
                 parts.v.data_ptr<float>() + begin, grad.data_ptr<float>() + begin,
                 std::min<std::int64_t>(777, kCount - begin), step_number(1), nullptr, DType::kFloat32);
  }
  EXPECT_TRUE(whole.master.equal(parts.master));
}

TEST(WidenWeights, gives_the_float32_that_a_weight_stands_for) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor weights = numbers({kCount}, dtype);
    const at::Tensor master = at::zeros({kCount});
    widen_weights(weights.data_ptr(), dtype == at::kFloat ? DType::kFloat32 : DType::kBFloat16,
                  master.data_ptr<float>(), kCount);
    EXPECT_TRUE(master.equal(weights.to(at::kFloat)));
  }
}

}  // namespace
}  // namespace sluice::ops
