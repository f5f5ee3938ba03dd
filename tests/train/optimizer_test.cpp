#include "train/optimizer.hpp"

#include "model/small_model.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <cstring>
#include <memory>
#include <vector>

namespace sluice {
namespace {

constexpr double kUpdateRate = 1e-2;

std::vector<OptimizerMode> all_modes() {
  std::vector<OptimizerMode> modes;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kLion, OptimizerKind::kAdafactor})
    for (const StateFormat state :
         {StateFormat::kFloat32, StateFormat::kBFloat16, StateFormat::kInt8, StateFormat::kFactored})
      for (const MasterFormat master : {MasterFormat::kFloat32, MasterFormat::k24Bit, MasterFormat::kNone})
        for (const ClipRule clip : {ClipRule::kGlobal, ClipRule::kUnit})
          if ((kind == OptimizerKind::kAdafactor) == (state == StateFormat::kFactored))
            modes.push_back({.kind = kind, .state = state, .master = master, .clip = clip});
  return modes;
}

OptimizerSettings settings_of(const OptimizerMode& mode) {
  OptimizerSettings settings{.weight_decay = 0.1, .max_grad_norm = 0.5, .seed = 3};
  settings.set_mode(mode);
  return settings;
}

/// Weights and gradients on the ranks of a communicator, the same numbers for any number of them.
class Updates {
 public:
  Updates(Communicator& comm, const test::SmallModel& model, const UnitLayouts& layouts,
          const OptimizerMode& mode, DType dtype, int expert_parallel = 1)
      : manifest_(model.description.manifest),
        plan_(layouts, {.world = comm.size(), .expert_parallel = expert_parallel}),
        mesh_(comm, plan_.dims()),
        weights_(plan_, comm.rank(), dtype, MemoryKind::kPrivate, "weights"),
        gradients_(plan_, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "gradients"),
        optimizer_(mesh_, manifest_, drawn(weights_, 7), settings_of(mode)) {}

  /// `in_turn`: one expert after the other, of units that this rank owns alone.
  void step(std::uint64_t number, bool in_turn = false) {
    drawn(gradients_, 100 + number);
    optimizer_.begin_step(optimizer_.steps() + 1, kUpdateRate);
    for (int unit = 0; unit < static_cast<int>(plan_.layouts().units.size()); ++unit) {
      const Range owned = plan_.owned(unit, weights_.rank());
      const FlatLayout& layout = plan_.layouts().units[static_cast<std::size_t>(unit)];
      if (!in_turn || layout.kind() != UnitKind::kExperts) {
        update(unit, owned);
        continue;
      }
      for (std::int64_t begin = owned.begin; begin < owned.end; begin += layout.expert_begin(1))
        update(unit, {begin, begin + layout.expert_begin(1)});
    }
  }

  /// Master values of elements of a tensor that this rank owns; `whole` owns all.
  [[nodiscard]] at::Tensor master_of(int tensor, Range elements) const {
    at::Tensor values = at::empty({elements.count()}, at::kFloat);
    plan_.owned_runs(tensor, elements, weights_.rank(), [&](const ShardPlan::OwnedRun& run) {
      optimizer_.master().read(
          run.arena_begin, run.count, DType::kFloat32,
          reinterpret_cast<std::byte*>(values.data_ptr<float>() + run.tensor_begin - elements.begin));
    });
    return values;
  }
  template <class Visit>
  void for_each_owned(Visit visit) const {
    for (int unit = 0; unit < static_cast<int>(plan_.layouts().units.size()); ++unit)
      for (const Placement& place : plan_.layouts().units[static_cast<std::size_t>(unit)].placements())
        plan_.owned_runs(place.tensor, weights_.rank(), [&](const ShardPlan::OwnedRun& run) {
          visit(place.tensor, Range{run.tensor_begin, run.tensor_begin + run.count});
        });
  }
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] const ShardArena& weights() const { return weights_; }
  [[nodiscard]] const ShardArena& gradients() const { return gradients_; }

 private:
  void update(int unit, Range elements) {
    const std::int64_t first = elements.begin - plan_.owned(unit, weights_.rank()).begin;
    const GradientPart gradient{unit, elements,
                                gradients_.unit_data(unit) + first * size_of(DType::kFloat32)};
    optimizer_.update(gradient, optimizer_.matrix_squares(gradient), 0.5);
  }
  ShardArena& drawn(ShardArena& arena, std::uint64_t seed) {
    initialize_shards(arena, manifest_, 0.2F, seed);
    return arena;
  }

  const ParameterManifest& manifest_;
  ShardPlan plan_;
  RankMesh mesh_;
  ShardArena weights_, gradients_;
  Optimizer optimizer_;
};

void expect_same(const Updates& part, const Updates& whole, bool is_factored) {
  part.for_each_owned([&](int tensor, Range elements) {
    const at::Tensor found = part.master_of(tensor, elements), expected = whole.master_of(tensor, elements);
    if (is_factored)
      EXPECT_TRUE(found.allclose(expected, 1e-2, 1e-5)) << "tensor " << tensor;  // one step of bfloat16 apart
    else
      EXPECT_TRUE(found.equal(expected)) << "tensor " << tensor;
  });
}

TEST(Optimizer, updates_to_the_same_bits_on_any_number_of_ranks_with_experts_gathered_or_routed) {
  const test::SmallModel model;
  const UnitLayouts layouts = make_unit_layouts(model.description.manifest, kStateBlock);
  const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
  for (const OptimizerMode& mode : all_modes())
    for (const int expert_parallel : {1, test::test_world().size()}) {
      SCOPED_TRACE(testing::Message()
                   << name_of(mode.kind) << ", state " << name_of(mode.state) << ", master "
                   << name_of(mode.master) << ", groups of " << expert_parallel);
      Updates together(test::test_world(), model, layouts, mode, DType::kBFloat16, expert_parallel);
      Updates single(*alone, model, layouts, mode, DType::kBFloat16);
      for (std::uint64_t step = 0; step < 3; ++step) {
        together.step(step);
        single.step(step);
      }
      expect_same(together, single, mode.state == StateFormat::kFactored);
    }
}

TEST(Optimizer, updates_experts_in_turn_as_all_at_once) {
  const test::SmallModel model;
  const UnitLayouts layouts = make_unit_layouts(model.description.manifest, kStateBlock);
  for (const OptimizerMode& mode : all_modes()) {
    const int ranks = test::test_world().size();
    Updates at_once(test::test_world(), model, layouts, mode, DType::kBFloat16, ranks);
    Updates in_turn(test::test_world(), model, layouts, mode, DType::kBFloat16, ranks);
    for (std::uint64_t step = 0; step < 2; ++step) {
      at_once.step(step);
      in_turn.step(step, /*in_turn=*/true);
    }
    EXPECT_EQ(std::memcmp(at_once.weights().data(), in_turn.weights().data(),
                          static_cast<std::size_t>(at_once.weights().bytes())),
              0);
    EXPECT_EQ(std::memcmp(at_once.optimizer().state(), in_turn.optimizer().state(),
                          static_cast<std::size_t>(at_once.optimizer().layout().bytes())),
              0);
  }
}

TEST(Optimizer, updates_every_element_as_torch_does) {
  const test::SmallModel model;
  const ParameterManifest& manifest = model.description.manifest;
  const std::unique_ptr<Communicator> alone = test::test_world().split(test::test_world().rank(), 0);
  Updates updates(*alone, model, model.layouts, {}, DType::kFloat32);
  const Updates start(*alone, model, model.layouts, {}, DType::kFloat32);
  std::vector<at::Tensor> leaves(manifest.tensors().size()), decaying, others;
  start.for_each_owned([&](int tensor, Range elements) {
    const at::Tensor values = start.master_of(tensor, elements);
    at::Tensor& leaf = leaves[static_cast<std::size_t>(tensor)];
    leaf = leaf.defined() ? at::cat({leaf, values}) : values;
  });
  for (const int tensor : manifest.stored_tensors()) {
    leaves[static_cast<std::size_t>(tensor)].requires_grad_();
    (manifest[tensor].shape.size() >= 2 ? decaying : others)
        .push_back(leaves[static_cast<std::size_t>(tensor)]);
  }
  const auto group = [](std::vector<at::Tensor> members, double decay) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(kUpdateRate);
    options->betas({0.9, 0.95}).eps(1e-8).weight_decay(decay);
    return torch::optim::OptimizerParamGroup(std::move(members), std::move(options));
  };
  torch::optim::AdamW reference(
      std::vector<torch::optim::OptimizerParamGroup>{group(decaying, 0.1), group(others, 0)});
  for (std::uint64_t step = 0; step < 3; ++step) {
    updates.step(step);
    std::vector<at::Tensor> gradients(leaves.size());
    const ArenaValues values(updates.gradients());
    updates.for_each_owned([&](int tensor, Range elements) {
      at::Tensor part = at::empty({elements.count()}, at::kFloat);
      values.plan().owned_runs(tensor, elements, 0, [&](const ShardPlan::OwnedRun& run) {
        values.read(run.arena_begin, run.count, DType::kFloat32,
                    reinterpret_cast<std::byte*>(part.data_ptr<float>() + run.tensor_begin - elements.begin));
      });
      at::Tensor& gradient = gradients[static_cast<std::size_t>(tensor)];
      gradient = gradient.defined() ? at::cat({gradient, part}) : part;
    });
    for (const int tensor : manifest.stored_tensors())
      leaves[static_cast<std::size_t>(tensor)].mutable_grad() =
          gradients[static_cast<std::size_t>(tensor)] * 0.5;
    reference.step();
  }
  for (const int tensor : manifest.stored_tensors()) {
    const at::Tensor& leaf = leaves[static_cast<std::size_t>(tensor)];
    EXPECT_TRUE(updates.master_of(tensor, {0, leaf.numel()}).allclose(leaf.detach(), 1e-5, 1e-6))
        << manifest[tensor].name;
  }
}

TEST(Optimizer, takes_bfloat16_weights_as_master_values_and_keeps_what_they_lack) {
  const test::SmallModel model(nlohmann::json::object(), DType::kBFloat16);
  Updates updates(test::test_world(), model, model.layouts, {}, DType::kBFloat16);
  const auto count_between = [&] {
    std::int64_t between = 0;
    updates.for_each_owned([&](int tensor, Range elements) {
      const at::Tensor values = updates.master_of(tensor, elements);
      between += (values != values.to(at::kBFloat16).to(at::kFloat)).sum().item<std::int64_t>();
    });
    return between;
  };
  EXPECT_EQ(count_between(), 0);
  updates.step(0);
  EXPECT_GT(count_between(), 0);
}

}  // namespace
}  // namespace sluice
