#include "job/plan/advice.hpp"

#include "config/schema.hpp"
#include "plan/optimizer_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace sluice {
namespace {

using Change = std::function<void(JobConfig&)>;

/// A job that does not fit, to be tried with other settings.
struct Trial {
  const JobPlan& plan;
  std::int64_t memory_limit = 0;  ///< memory of each rank in bytes

  /// Advice to make this change, if the job fits with it.
  [[nodiscard]] std::optional<FitAdvice> with(std::string text, const Change& change) const {
    const std::int64_t peak = plan.with(change).largest_peak();
    return peak <= memory_limit ? std::optional(FitAdvice{std::move(text), peak}) : std::nullopt;
  }
};

/// Advice to use more ranks. The peak falls with their number, so the least number that fits is found by
/// bisection.
std::optional<FitAdvice> more_ranks(const Trial& trial) {
  constexpr int kMaxRanks = 1024;
  const ParallelSettings& parallel = trial.plan.config().parallel;
  const int group = static_cast<int>(std::max<std::int64_t>(1, parallel.expert_parallel) * parallel.replicas);
  const auto peak_of = [&](int groups) {
    return trial.plan.with(trial.plan.machine.with_ranks(groups * group)).largest_peak();
  };
  int too_few = trial.plan.machine.ranks() / group, enough = kMaxRanks / group;
  if (too_few >= enough) return std::nullopt;
  std::int64_t peak = peak_of(enough);  // bytes with `enough` groups
  if (peak > trial.memory_limit) return std::nullopt;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    const std::int64_t tried = peak_of(middle);
    if (tried <= trial.memory_limit) {
      enough = middle;
      peak = tried;
    } else {
      too_few = middle;
    }
  }
  return FitAdvice{fmt::format("{} ranks", enough * group), peak};
}

/// Advice to keep fewer activations for backward, as few as necessary.
std::optional<FitAdvice> more_recomputed(const Trial& trial) {
  for (const auto& [recompute, setting] : {std::pair{Recompute::kLayer, "train.recompute = \"layer\""},
                                           {Recompute::kAll, "train.recompute = \"all\""}}) {
    const std::optional<FitAdvice> advice =
        trial.with(setting, [kept = recompute](JobConfig& config) { config.train.recompute = kept; });
    if (advice && advice->peak_bytes < trial.plan.largest_peak()) return advice;
  }
  return std::nullopt;
}

/// Advice with the first mode of this kind of optimizer that fits, as words to add to the command line.
std::optional<FitAdvice> smaller_state(const Trial& trial, OptimizerKind kind) {
  OptimizerMode written = trial.plan.config().optimizer.mode();
  const std::string other_kind =
      kind == written.kind ? "" : fmt::format("--set optimizer.kind={} ", name_of(kind));
  written.kind = kind;
  for (const OptimizerMode& mode : fitting_modes(written, trial.plan.config().model.dtype))
    if (auto advice = trial.with(
            fmt::format("{}--set optimizer.state={} --set optimizer.master={} --set optimizer.gradients={}",
                        other_kind, name_of(mode.state), name_of(mode.master), name_of(mode.gradients)),
            [&](JobConfig& config) { config.optimizer.set_mode(mode); }))
      return advice;
  return std::nullopt;
}

/// Advice with a mode of the same kind, or else of Adafactor, which keeps the least but has other learning
/// rates.
std::optional<FitAdvice> smaller_optimizer(const Trial& trial) {
  std::optional<FitAdvice> same = smaller_state(trial, trial.plan.config().optimizer.kind);
  return same ? same : smaller_state(trial, OptimizerKind::kAdafactor);
}

/// Advice to release gradients and to offload the rest to a disk, if that fits with the mode as written.
std::optional<FitAdvice> use_of_a_disk(const Trial& trial) {
  if (trial.plan.config().memory.offload != Offload::kNone) return std::nullopt;
  return trial.with("--set memory.offload=disk --set optimizer.gradients=release", [](JobConfig& config) {
    config.memory.offload = Offload::kDisk;
    config.optimizer.gradients = GradientMode::kRelease;
  });
}

/// Advice with a job kind that fits if training does not.
std::optional<FitAdvice> other_kind(const Trial& trial, JobKind kind) {
  return trial.with(fmt::format("job.kind = \"{}\"", name_of(kind)),
                    [&](JobConfig& config) { config.job.kind = kind; });
}

}  // namespace

std::vector<FitAdvice> advise(const JobPlan& plan, std::int64_t memory_limit) {
  const Trial trial{plan, memory_limit};
  std::vector<std::optional<FitAdvice>> found{more_ranks(trial)};
  if (is_training(plan.config().job.kind))
    found.insert(found.end(), {more_recomputed(trial), smaller_optimizer(trial), use_of_a_disk(trial),
                               other_kind(trial, JobKind::kEvaluate), other_kind(trial, JobKind::kExport),
                               other_kind(trial, JobKind::kLoad)});
  std::vector<FitAdvice> advice;
  for (const std::optional<FitAdvice>& one : found)
    if (one) advice.push_back(*one);
  return advice;
}

}  // namespace sluice
