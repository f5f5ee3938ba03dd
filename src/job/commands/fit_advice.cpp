#include "job/commands/fit_advice.hpp"

#include "job/prepare/load_request.hpp"
#include "job/prepare/workload.hpp"
#include "plan/optimizer_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

std::int64_t largest_peak(const std::vector<RankMemory>& ranks) {
  return std::ranges::max(ranks, {}, &RankMemory::peak).peak();
}

/// Advice to use more ranks. The peak falls with their number, so the least number that fits is found by
/// bisection.
std::optional<FitAdvice> more_ranks(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes) {
  constexpr int kMaxRanks = 1024;
  const int group = std::max(1, static_cast<int>(blueprint.config.parallel.expert_parallel));
  const auto peak_of = [&](int groups) {
    return largest_peak(
        memory_on_separate_nodes(blueprint, blueprint.shard_plan(groups * group), memory_bytes));
  };
  int too_few = ranks / group, enough = kMaxRanks / group;
  if (too_few >= enough || peak_of(enough) > memory_bytes) return std::nullopt;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (peak_of(middle) <= memory_bytes ? enough : too_few) = middle;
  }
  return FitAdvice{fmt::format("{} ranks", enough * group), peak_of(enough)};
}

/// Function that returns the peak bytes of the rank that needs the most for a workload.
using PeakOf = std::function<std::int64_t(const Workload&)>;

/// Advice to keep fewer activations for backward, as few as necessary.
std::optional<FitAdvice> more_recomputed(const PeakOf& peak_of, const Workload& work,
                                         std::int64_t memory_bytes) {
  constexpr std::array<std::pair<Recompute, std::string_view>, 2> kSettings{
      {{Recompute::kLayer, "train.recompute = \"layer\""}, {Recompute::kAll, "train.recompute = \"all\""}}};
  for (const auto& [recompute, setting] : kSettings) {
    Workload changed = work;
    set_recompute(changed, recompute);
    const std::int64_t peak = peak_of(changed);
    if (peak < peak_of(work) && peak <= memory_bytes) return FitAdvice{std::string(setting), peak};
  }
  return std::nullopt;
}

/// Advice with the first mode of this kind of optimizer that fits, as words to add to the command line.
std::optional<FitAdvice> smaller_state(const PeakOf& peak_of, const Workload& work, OptimizerKind kind,
                                       std::int64_t memory_bytes) {
  OptimizerMode written = work.optimizer;
  written.kind = kind;
  const std::string other_kind =
      kind == work.optimizer.kind ? "" : fmt::format("--set optimizer.kind={} ", name_of(kind));
  for (const OptimizerMode& mode : fitting_modes(written, work.dtype)) {
    Workload changed = work;
    changed.optimizer = mode;
    const std::int64_t peak = peak_of(changed);
    if (peak <= memory_bytes)
      return FitAdvice{
          fmt::format("{}--set optimizer.state={} --set optimizer.master={} --set optimizer.gradients={}",
                      other_kind, name_of(mode.state), name_of(mode.master), name_of(mode.gradients)),
          peak};
  }
  return std::nullopt;
}

/// Advice with a mode of the same kind, or else of Adafactor, which keeps the least but has other learning
/// rates.
std::optional<FitAdvice> smaller_optimizer(const PeakOf& peak_of, const Workload& work,
                                           std::int64_t memory_bytes) {
  std::optional<FitAdvice> same = smaller_state(peak_of, work, work.optimizer.kind, memory_bytes);
  return same ? same : smaller_state(peak_of, work, OptimizerKind::kAdafactor, memory_bytes);
}

/// Advice to release gradients and to offload the rest to a disk, if that fits with the mode as written.
std::optional<FitAdvice> use_of_a_disk(const PeakOf& peak_of, const Workload& work,
                                       std::int64_t memory_bytes) {
  if (work.offload_above) return std::nullopt;
  Workload changed = work;
  changed.optimizer.gradients = GradientMode::kRelease;
  changed.offload_above = usable_bytes(memory_bytes);
  const std::int64_t peak = peak_of(changed);
  if (peak > memory_bytes) return std::nullopt;
  return FitAdvice{"--set memory.offload=disk --set optimizer.gradients=release", peak};
}

/// Adds advice with job kinds that fit if training does not.
void add_other_kinds(const PeakOf& peak_of, const Workload& work, std::int64_t memory_bytes,
                     std::vector<FitAdvice>& advice) {
  constexpr std::array<std::pair<JobKind, std::string_view>, 3> kKinds{
      {{JobKind::kEvaluate, "job.kind = \"evaluate\""},
       {JobKind::kExport, "job.kind = \"export\""},
       {JobKind::kLoad, "job.kind = \"load\""}}};
  for (const auto& [kind, setting] : kKinds) {
    Workload changed = work;
    set_kind(changed, kind);
    const std::int64_t peak = peak_of(changed);
    if (peak <= memory_bytes) advice.push_back({std::string(setting), peak});
  }
}

}  // namespace

std::vector<FitAdvice> advise(const Blueprint& blueprint, int ranks, std::int64_t memory_bytes,
                              std::span<const std::int64_t> staging_bytes) {
  std::vector<FitAdvice> advice;
  if (std::optional<FitAdvice> more = more_ranks(blueprint, ranks, memory_bytes)) advice.push_back(*more);
  if (blueprint.config.job.kind != JobKind::kTrain) return advice;
  const ShardPlan plan = blueprint.shard_plan(ranks);
  const PeakOf peak_of = [&](const Workload& work) {
    return largest_peak(blueprint.memory_plan(plan, work, staging_bytes));
  };
  const Workload work = workload_of(blueprint.config, planned_memory(blueprint.config), memory_bytes);
  if (std::optional<FitAdvice> less = more_recomputed(peak_of, work, memory_bytes)) advice.push_back(*less);
  if (std::optional<FitAdvice> smaller = smaller_optimizer(peak_of, work, memory_bytes))
    advice.push_back(*smaller);
  if (std::optional<FitAdvice> disk = use_of_a_disk(peak_of, work, memory_bytes)) advice.push_back(*disk);
  add_other_kinds(peak_of, work, memory_bytes, advice);
  return advice;
}

}  // namespace sluice
