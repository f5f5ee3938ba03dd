#include "job/commands/fit_advice.hpp"

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

/// What can be done with the model on these ranks where training cannot.
void add_other_kinds(const Blueprint& blueprint, const ShardPlan& plan, std::int64_t memory_bytes,
                     std::vector<FitAdvice>& advice) {
  constexpr std::array<std::pair<JobKind, std::string_view>, 3> kKinds{
      {{JobKind::kEvaluate, "job.kind = \"evaluate\""},
       {JobKind::kExport, "job.kind = \"export\""},
       {JobKind::kLoad, "job.kind = \"load\""}}};
  JobConfig changed = blueprint.config;
  for (const auto& [kind, setting] : kKinds) {
    changed.job.kind = kind;
    const std::int64_t peak = largest_peak(blueprint.memory_plan(plan, changed));
    if (peak <= memory_bytes) advice.push_back({std::string(setting), peak});
  }
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
  add_other_kinds(blueprint, plan, memory_bytes, advice);
  return advice;
}

}  // namespace sluice
