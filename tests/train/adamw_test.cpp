#include "train/adamw.hpp"

#include "model/small_model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr int kUpdates = 4;
constexpr double kRate = 1e-2;
constexpr double kScale = 0.5;
constexpr AdamWOptions kOptions{.betas = {0.9, 0.95}, .eps = 1e-8, .weight_decay = 0.1};

/// Each tensor's float32 values; from here they are copied into shards and back.
using Tensors = std::map<int, at::Tensor>;

template <class Visit>
void for_each_owned_run(const ShardPlan& plan, int rank, Visit visit) {
  for (int unit = 0; unit < static_cast<int>(plan.layouts().units.size()); ++unit)
    for (const Placement& placement : plan.layouts().units[static_cast<std::size_t>(unit)].placements())
      plan.for_each_owned_run(unit, placement, rank,
                              [&](const ShardPlan::OwnedRun& run) { visit(placement.tensor, run); });
}

float* floats(const ShardArena& arena) { return reinterpret_cast<float*>(arena.data()); }

void scatter(const Tensors& tensors, ShardArena& arena) {
  for_each_owned_run(arena.plan(), arena.rank(), [&](int tensor, const ShardPlan::OwnedRun& run) {
    std::copy_n(tensors.at(tensor).data_ptr<float>() + run.tensor_begin, run.count,
                floats(arena) + run.arena_begin);
  });
}

void gather(const ShardArena& arena, Tensors& tensors) {
  for_each_owned_run(arena.plan(), arena.rank(), [&](int tensor, const ShardPlan::OwnedRun& run) {
    std::copy_n(floats(arena) + run.arena_begin, run.count,
                tensors.at(tensor).data_ptr<float>() + run.tensor_begin);
  });
}

Tensors random_tensors(const ParameterManifest& manifest, std::uint64_t seed) {
  Tensors tensors;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const int tensor : manifest.stored_tensors())
    tensors[tensor] = at::randn(manifest[tensor].shape, generator, at::kFloat);
  return tensors;
}

/// torch.optim.AdamW with two groups: weights of two and more dimensions decay.
Tensors reference_update(const ParameterManifest& manifest) {
  Tensors tensors = random_tensors(manifest, 1);
  std::vector<at::Tensor> decaying, others;
  for (auto& [index, tensor] : tensors) {
    tensor.requires_grad_();
    (tensor.dim() >= 2 ? decaying : others).push_back(tensor);
  }
  const auto group = [&](std::vector<at::Tensor> members, double decay) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(kRate);
    options->betas({kOptions.betas[0], kOptions.betas[1]}).eps(kOptions.eps).weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(members), std::move(options));
  };
  torch::optim::AdamW optimizer(std::vector<torch::optim::OptimizerParamGroup>{
      group(decaying, kOptions.weight_decay), group(others, 0)});
  for (int update = 0; update < kUpdates; ++update) {
    const Tensors gradients = random_tensors(manifest, 10 + static_cast<std::uint64_t>(update));
    for (auto& [index, tensor] : tensors) tensor.mutable_grad() = gradients.at(index) * kScale;
    optimizer.step();
  }
  return tensors;
}

class AdamWOnRanks : public testing::TestWithParam<int> {};

TEST_P(AdamWOnRanks, updates_every_element_as_torch_does) {
  const test::SmallModel model;
  const ParameterManifest& manifest = model.description.manifest;
  const ShardPlan plan(model.layouts, {.world = GetParam()});
  Tensors updated = random_tensors(manifest, 1);
  for (int rank = 0; rank < plan.world(); ++rank) {
    ShardArena weights(plan, rank, DType::kFloat32, "weights");
    ShardArena gradients(plan, rank, DType::kFloat32, "gradients");
    scatter(random_tensors(manifest, 1), weights);
    AdamW optimizer(manifest, weights, kOptions);
    for (int update = 0; update < kUpdates; ++update) {
      scatter(random_tensors(manifest, 10 + static_cast<std::uint64_t>(update)), gradients);
      optimizer.update(gradients, kRate, kScale);
    }
    gather(weights, updated);
  }
  for (const auto& [index, tensor] : reference_update(manifest))
    EXPECT_TRUE(updated.at(index).allclose(tensor.detach(), 1e-5, 1e-6)) << manifest[index].name;
}

INSTANTIATE_TEST_SUITE_P(Ranks, AdamWOnRanks, testing::Range(1, 5));

TEST(AdamW, bfloat16_weights_are_the_rounded_master_weights) {
  const test::SmallModel model(nlohmann::json::object(), DType::kBFloat16);
  ShardArena weights(model.plan, 0, DType::kBFloat16, "weights");
  initialize_shards(weights, model.description.manifest, 0.2F, 7);
  ShardArena gradients(model.plan, 0, DType::kFloat32, "gradients");
  scatter(random_tensors(model.description.manifest, 3), gradients);
  AdamW optimizer(model.description.manifest, weights, kOptions);
  const auto elements = model.plan.arena_elements(0);
  const at::Tensor narrow = torch::from_blob(weights.data(), {elements}, at::kBFloat16);
  const at::Tensor before = narrow.clone();
  const at::Tensor master = torch::from_blob(optimizer.master().data(), {elements}, at::kFloat);
  EXPECT_TRUE(master.equal(before.to(at::kFloat)));
  for (int update = 0; update < kUpdates; ++update) optimizer.update(gradients, 1e-5, 1);
  EXPECT_TRUE(narrow.equal(master.to(at::kBFloat16)));
  EXPECT_FALSE(master.equal(before.to(at::kFloat))) << "small updates must not be rounded away";
}

}  // namespace
}  // namespace sluice
