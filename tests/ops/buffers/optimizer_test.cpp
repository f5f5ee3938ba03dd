#include "ops/buffers/optimizer.hpp"

#include "ops/buffers/update_shards.hpp"
#include "ops/op_check.hpp"

#include <gtest/gtest.h>
#include <torch/optim.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace sluice::ops {
namespace {

constexpr std::int64_t kCount = 10007;
constexpr UpdateFormats kFloats{};
constexpr UpdateFormats kBFloat16Weights{.weights = DType::kBFloat16};

AdamWStep step_number(int t, double rate = 1e-2) {
  AdamWStep step{rate, 0.9, 0.95, 1e-8, 0.1};
  step.bias_correction1 = 1 - std::pow(step.beta1, t);
  step.bias_correction2 = 1 - std::pow(step.beta2, t);
  return step;
}

at::Tensor gradient_number(int t, DType dtype = DType::kFloat32) {
  return numbers({kCount}, at::kFloat, static_cast<std::uint64_t>(t + 10))
      .to(dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16);
}

TEST(AdamW, follows_torch_over_several_steps) {
  Shard shard(numbers({kCount}));
  const at::Tensor leaf = shard.weights.clone().requires_grad_();
  torch::optim::AdamW reference({leaf},
                                torch::optim::AdamWOptions(1e-2).betas({0.9, 0.95}).weight_decay(0.1));
  for (int t = 1; t <= 5; ++t) {
    leaf.mutable_grad() = gradient_number(t) * 0.25;
    reference.step();
    shard.adamw(gradient_number(t), step_number(t), 0.25F);
  }
  expect_close(shard.values(), leaf.detach(), 1e-6);
}

TEST(AdamW, bfloat16_weights_with_their_missing_bits_are_the_float32_weights_but_for_ties) {
  const at::Tensor start = numbers({kCount}, at::kBFloat16).to(at::kFloat);
  Shard wide(start), split(start, kBFloat16Weights);
  std::int64_t ties = 0;
  for (int t = 1; t <= 20; ++t) {
    wide.adamw(gradient_number(t), step_number(t));
    split.adamw(gradient_number(t), step_number(t));
    ties += (wide.weights != split.values()).sum().item<std::int64_t>();
    EXPECT_TRUE(split.weights.equal(wide.weights.to(at::kBFloat16))) << "step " << t;
    EXPECT_TRUE((wide.weights - split.values()).abs().max().item<float>() <= 1e-6F);
  }
  // One in 131,072, but for the first step, which moves all by the rate; each counts in the later steps as
  // well.
  EXPECT_LE(ties, 20 * kCount / 500);
}

TEST(AdamW, gives_the_same_bits_however_a_shard_is_cut_and_for_any_number_of_threads) {
  for (const UpdateFormats& formats : all_formats()) {
    Shard whole(numbers({kCount}), formats), parts(numbers({kCount}), formats);
    for (int t = 1; t <= 3; ++t) {
      const at::Tensor gradient = gradient_number(t, formats.gradient);
      whole.adamw(gradient, step_number(t));
      const Threads threads(t);
      std::vector<UpdateRun> runs;
      for (std::int64_t begin = 0; begin < kCount; begin += 6 * kStateBlock)
        runs.push_back(parts.run(gradient, begin, std::min(6 * kStateBlock, kCount - begin)));
      update_moments(runs, formats, step_number(t));
    }
    EXPECT_TRUE(whole.weights.equal(parts.weights));
    EXPECT_EQ(std::memcmp(bytes(whole.master), bytes(parts.master), kCount), 0);
    EXPECT_EQ(std::memcmp(bytes(whole.first), bytes(parts.first), kCount), 0);
    EXPECT_EQ(std::memcmp(bytes(whole.second), bytes(parts.second), kCount), 0);
    EXPECT_TRUE(whole.first_scales.equal(parts.first_scales));
  }
}

/// Weights of all sizes that decay alone, 500 steps of 1e-5 times 0.1.
double decay_of(const UpdateFormats& formats, bool is_lion) {
  const at::Tensor start = numbers({kCount}).to(at::kBFloat16).to(at::kFloat);
  Shard shard(start, formats);
  const at::Tensor nothing = at::zeros({kCount});
  for (int t = 1; t <= 500; ++t) {
    shard.draws = static_cast<std::uint64_t>(t);
    UpdateRun run = shard.run(nothing);
    if (is_lion)
      update_moments(std::span(&run, 1), formats, LionStep{.lr = 1e-5, .weight_decay = 0.1});
    else
      update_moments(std::span(&run, 1), formats, step_number(t, 1e-5));
  }
  return 1 - (shard.values() * start).sum().item<double>() / start.square().sum().item<double>();
}

TEST(StochasticRounding, keeps_a_decay_far_below_one_unit) {
  const double expected = 1 - std::pow(1 - 1e-6, 500);
  for (const bool is_lion : {false, true})
    for (const MasterFormat master : {MasterFormat::k24Bit, MasterFormat::kNone})
      EXPECT_NEAR(
          decay_of({.weights = DType::kBFloat16, .master = master, .state = StateFormat::kInt8}, is_lion) /
              expected,
          1, 0.05)
          << static_cast<int>(master);
}

TEST(StochasticRounding, keeps_steps_of_a_millionth) {
  for (const MasterFormat master : {MasterFormat::k24Bit, MasterFormat::kNone}) {
    Shard shard(at::full({100000}, 0.75),
                {.weights = DType::kBFloat16, .master = master, .state = StateFormat::kInt8});
    const at::Tensor gradient = at::ones({100000});
    for (int t = 1; t <= 500; ++t) {
      shard.draws = static_cast<std::uint64_t>(t);
      AdamWStep step = step_number(t, 1e-6);
      step.weight_decay = 0;
      shard.adamw(gradient, step);
    }
    EXPECT_NEAR((0.75 - shard.values().to(at::kDouble).mean().item<double>()) / 500e-6, 1, 0.05);
  }
}

TEST(SecondMoment, decays_in_bfloat16_though_each_decay_is_below_half_a_unit) {
  Shard shard(at::zeros({100000}), {.weights = DType::kBFloat16, .state = StateFormat::kBFloat16});
  AdamWStep step = step_number(1000);
  step.beta2 = 0.999;
  shard.adamw(at::ones({100000}), step);
  const at::Tensor nothing = at::zeros({100000});
  for (int t = 0; t < 500; ++t) {
    shard.draws = static_cast<std::uint64_t>(t + 7);
    shard.adamw(nothing, step);
  }
  const at::Tensor second = at::from_blob(shard.second.data_ptr(), {100000}, at::kBFloat16);
  EXPECT_NEAR(second.to(at::kDouble).mean().item<double>() / (0.001 * std::pow(0.999, 500)), 1, 0.02);
}

TEST(Lion, follows_its_formula) {
  Shard shard(numbers({kCount}));
  at::Tensor weights = shard.weights.clone(), m = at::zeros({kCount});
  for (int t = 1; t <= 4; ++t) {
    const at::Tensor gradient = gradient_number(t), g = gradient * 0.5;
    weights = weights * (1 - 1e-3 * 0.1) - 1e-3 * (m * 0.9 + g * 0.1).sign();
    m = m * 0.99 + g * 0.01;
    UpdateRun run = shard.run(gradient);
    run.gradient_scale = 0.5F;
    update_moments(std::span(&run, 1), kFloats, LionStep{.lr = 1e-3, .weight_decay = 0.1});
  }
  expect_close(shard.values(), weights, 1e-6);
}

}  // namespace
}  // namespace sluice::ops
