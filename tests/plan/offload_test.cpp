#include "plan/offload.hpp"

#include "base/bytes.hpp"
#include "model/small_model.hpp"
#include "plan/optimizer_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {
namespace {

constexpr int kLayers = 8;

/// Eight layers of experts on two ranks, of which this is rank 0.
struct Job {
  explicit Job(OptimizerMode mode) : work{.dtype = DType::kBFloat16, .optimizer = mode} {}

  [[nodiscard]] OffloadPlan plan(std::int64_t excess) const {
    return plan_offload(shards, work.trains ? state.of_units(0) : std::vector<std::int64_t>{}, 0, work,
                        excess);
  }
  static std::int64_t count(const OffloadPlan& plan, bool OffloadedUnit::*part) {
    return std::ranges::count_if(plan.units, [&](const OffloadedUnit& unit) { return unit.*part; });
  }

  test::SmallModel model{nlohmann::json{{"num_hidden_layers", kLayers},
                                        {"hidden_size", 64},
                                        {"moe_intermediate_size", 128},
                                        {"num_experts", 8}}};
  Workload work;
  ShardPlan shards{model.layouts, {.world = 2, .expert_parallel = 2}, ShardAlignment::kPages};
  OptimizerBytes state{model.description.manifest, shards, work.optimizer, work.dtype};
};

const OptimizerMode kAdamW{.gradients = GradientMode::kRelease};

TEST(Offload, nothing_goes_to_a_disk_that_fits) { EXPECT_EQ(Job(kAdamW).plan(0).file_bytes(), 0); }

TEST(Offload, state_goes_first_and_weights_once_all_state_is_there) {
  const Job job(kAdamW);
  for (std::int64_t excess = 64 * kKiB, weights_before = 0; excess < 16 * kMiB; excess += 64 * kKiB) {
    const OffloadPlan plan = job.plan(excess);
    const bool is_all = Job::count(plan, &OffloadedUnit::weights) == kLayers;
    EXPECT_TRUE(is_all || plan.file_bytes() - plan.buffer_bytes >= excess);
    if (plan.weight_bytes > 0) {
      EXPECT_EQ(Job::count(plan, &OffloadedUnit::state), kLayers);
    }
    EXPECT_GE(plan.weight_bytes, weights_before);
    weights_before = plan.weight_bytes;
  }
}

TEST(Offload, the_layers_are_evenly_spread) {
  const Job job(kAdamW);
  for (std::int64_t excess = 1; excess < 4 * kMiB; excess += 100'000) {
    const OffloadPlan plan = job.plan(excess);
    std::vector<std::int64_t> at;
    for (int unit = 0, layer = 0; unit < static_cast<int>(plan.units.size()); ++unit) {
      if (!job.shards.has_experts(unit)) continue;
      if (plan.units[static_cast<std::size_t>(unit)].state) at.push_back(layer);
      ++layer;
    }
    for (std::size_t i = 1; i < at.size(); ++i)
      EXPECT_LE(at[i] - at[i - 1], (kLayers + 1 + std::ssize(at)) / (std::ssize(at) + 1))
          << at.size() << " layers";
  }
}

TEST(Offload, a_step_reads_weights_twice_and_writes_what_it_updates) {
  OptimizerMode mode = kAdamW;
  mode.clip = ClipRule::kUnit;
  const OffloadPlan all = Job(mode).plan(kGiB);
  // What ends one pass begins the next.
  EXPECT_EQ(all.step_read_bytes, 2 * all.weight_bytes - 2 * all.weight_bytes / kLayers + all.state_bytes);
  EXPECT_EQ(all.step_written_bytes, all.file_bytes());
  EXPECT_EQ(Job(kAdamW).plan(kGiB).step_read_bytes, all.step_read_bytes + all.weight_bytes)
      << "a norm of all gradients takes a pass more";
  Job evaluation(mode);
  evaluation.work.trains = false;
  const OffloadPlan weights = evaluation.plan(kGiB);
  EXPECT_EQ(weights.state_bytes, 0);
  EXPECT_EQ(weights.step_read_bytes, weights.weight_bytes);
  EXPECT_EQ(weights.step_written_bytes, 0);
}

}  // namespace
}  // namespace sluice
