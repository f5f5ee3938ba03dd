#include "job/commands/fit_advice.hpp"

#include "base/dtype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

std::int64_t largest_peak(const std::vector<RankMemory>& ranks) {
  return std::ranges::max(ranks, {}, &RankMemory::peak).peak();
}

std::optional<FitAdvice> more_ranks(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes) {
  constexpr int kMaxRanks = 1024;
  const int group = std::max(1, static_cast<int>(blueprint.config.parallel.expert_parallel));
  for (int world = (ranks / group + 1) * group; world <= kMaxRanks; world += group) {
    const std::int64_t peak = largest_peak(blueprint.memory_plan(blueprint.shard_plan(world)));
    if (peak <= memory_bytes) return FitAdvice{fmt::format("{} ranks", world), peak};
  }
  return std::nullopt;
}

/// Fewer activations kept for backward than with `peak_now`, and no fewer than it takes.
std::optional<FitAdvice> more_recomputed(const Blueprint& blueprint, const ShardPlan& plan,
                                         std::int64_t peak_now, std::int64_t memory_bytes) {
  constexpr std::array<std::pair<Recompute, std::string_view>, 2> kSettings{
      {{Recompute::kLayer, "train.recompute = \"layer\""}, {Recompute::kAll, "train.recompute = \"all\""}}};
  JobConfig changed = blueprint.config;
  for (const auto& [recompute, setting] : kSettings) {
    changed.train.recompute = recompute;
    const std::int64_t peak = largest_peak(blueprint.memory_plan(plan, changed));
    if (peak < peak_now && peak <= memory_bytes) return FitAdvice{std::string(setting), peak};
  }
  return std::nullopt;
}

/// A training state smaller than float32 AdamW's.
struct SmallState {
  std::string_view setting;
  double bytes_per_parameter;  ///< beside bfloat16 weights, without gradients
  bool releases_gradients;     ///< each unit's gradient is used and let go in backward
};

// Bytes: moments in bfloat16; 8-bit moments with a float32 scale for each block of 256 (torchao); a row and a
// column of sums for each matrix (Adafactor). Weights are updated with stochastic rounding.
constexpr std::array<SmallState, 3> kSmallStates{
    {{"optimizer.state = \"bfloat16\"", 4, false},
     {"optimizer.state = \"int8\" with optimizer.release_gradients", 2 + 2 * 4.0 / 256, true},
     {"optimizer.state = \"factored\" with optimizer.release_gradients", 0.01, true}}};

/// Elements of the largest unit's shard: the gradient that is there when gradients are released.
std::int64_t largest_shard(const ShardPlan& plan, int rank) {
  std::int64_t largest = 0;
  for (int unit = 0; unit < static_cast<int>(plan.layouts().units.size()); ++unit)
    largest = std::max(largest, plan.owned(unit, rank).count());
  return largest;
}

std::int64_t peak_with(const SmallState& state, const ShardPlan& plan, std::vector<RankMemory> ranks) {
  for (int rank = 0; rank < plan.world(); ++rank) {
    RankMemory& memory = ranks[static_cast<std::size_t>(rank)];
    const std::int64_t elements = plan.arena_elements(rank);
    memory.optimizer = static_cast<std::int64_t>(static_cast<double>(elements) * state.bytes_per_parameter);
    if (state.releases_gradients) memory.gradients = largest_shard(plan, rank) * size_of(DType::kFloat32);
  }
  return largest_peak(ranks);
}

}  // namespace

std::vector<FitAdvice> advise(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes) {
  std::vector<FitAdvice> advice;
  if (std::optional<FitAdvice> more = more_ranks(blueprint, ranks, memory_bytes)) advice.push_back(*more);
  if (blueprint.config.job.kind != JobKind::kTrain) return advice;
  const ShardPlan plan = blueprint.shard_plan(ranks);
  const std::vector<RankMemory> needed = blueprint.memory_plan(plan);
  if (std::optional<FitAdvice> less = more_recomputed(blueprint, plan, largest_peak(needed), memory_bytes))
    advice.push_back(*less);
  for (const SmallState& state : kSmallStates)
    if (const std::int64_t peak = peak_with(state, plan, needed); peak <= memory_bytes)
      advice.push_back({std::string(state.setting), peak, false});
  return advice;
}

}  // namespace sluice
