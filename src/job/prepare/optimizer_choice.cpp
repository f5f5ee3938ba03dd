#include "job/prepare/optimizer_choice.hpp"

#include "base/bytes.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/workload.hpp"
#include "job/stored/stored_weights.hpp"
#include "plan/optimizer_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

/// Format in which frozen weights are kept; all formats have the same numbers.
struct FrozenForm {
  FrozenFormat format;
  Offload offload;
};

JobConfig with_mode(JobConfig config, const OptimizerMode& mode, const FrozenForm& form) {
  config.model.frozen_format = form.format;
  config.memory.offload = form.offload;
  config.optimizer.set_mode(mode);
  return config;
}

/// Formats of frozen weights to try, in order.
std::vector<FrozenForm> forms_of(const JobConfig& config, const StoredTensors& stored) {
  std::vector<FrozenForm> forms{{config.model.frozen_format, config.memory.offload}};
  if (is_quantised_by_load(config.model.frozen_format)) return forms;
  if (config.model.frozen_format == FrozenFormat::kDType && !stored.quantised().is_empty())
    forms.push_back({FrozenFormat::kStored, config.memory.offload});
  if (may_stay_in_files(config) && config.memory.offload == Offload::kNone && !stored.is_empty())
    forms.push_back({FrozenFormat::kStored, Offload::kSource});
  return forms;
}

/// Text about the rank that lacks the most memory; "" if none lacks any.
std::string find_lack(std::span<const RankMemory> ranks, std::span<const std::int64_t> growth_limits) {
  std::string lack;
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t peak = ranks[rank].peak(), beyond = peak - usable_bytes(growth_limits[rank]);
    if (beyond <= most) continue;
    most = beyond;
    lack = fmt::format(
        "optimizer.fit: no mode leaves a tenth of every rank's memory free. The smallest needs {} on rank "
        "{}, which may take {} in all. Use more ranks on more machines, or see sluice plan",
        format_bytes(peak), rank, format_bytes(std::max<std::int64_t>(growth_limits[rank], 0)));
  }
  return lack;
}

}  // namespace

bool chooses_mode(const JobConfig& config) {
  return config.job.kind == JobKind::kTrain && config.optimizer.fit == OptimizerFit::kAuto;
}

FittedJob fit_optimizer(const JobConfig& config, const StoredTensors& stored,
                        std::span<const std::int64_t> growth_limits, std::span<const int> nodes, int threads,
                        MemoryKind memory) {
  FittedJob fitted;
  for (const OptimizerMode& mode : fitting_modes(config.optimizer.mode(), config.model.dtype)) {
    // State on a disk is updated while it is in memory, which needs released gradients.
    if (config.memory.offload == Offload::kDisk && mode.gradients != GradientMode::kRelease) continue;
    for (const FrozenForm& form : forms_of(config, stored)) {
      JobConfig tried = with_mode(config, mode, form);
      StoredTensors kept = kept_as_stored(tried, stored);
      const Blueprint blueprint(std::move(tried), std::move(kept));
      const ShardPlan shards = blueprint.shard_plan(static_cast<int>(nodes.size()));
      Workload work = workload_of(blueprint.config, memory, std::ranges::min(growth_limits));
      work.threads = threads;
      const std::vector<RankMemory> ranks =
          blueprint.memory_plan(shards, work, largest_staging(blueprint, shards, nodes, memory));
      fitted = {blueprint.config, find_lack(ranks, growth_limits)};
      if (fitted.lack.empty()) return fitted;
    }
  }
  return fitted;
}

FittedJob fit_optimizer(const JobConfig& config, int ranks, std::int64_t growth_limit) {
  const std::vector<std::int64_t> limits(static_cast<std::size_t>(ranks), growth_limit);
  const MemoryKind memory = planned_memory(config);
  return fit_optimizer(config, stored_weights(Blueprint(config), memory), limits, separate_nodes(ranks),
                       static_cast<int>(config.parallel.threads), memory);
}

std::string mode_text(const OptimizerMode& mode) {
  return fmt::format("{}, state {}, master {}, gradients {}", name_of(mode.kind), name_of(mode.state),
                     name_of(mode.master), name_of(mode.gradients));
}

std::string choice_text(const JobConfig& fitted, std::int64_t growth_limit) {
  std::string frozen;
  if (fitted.model.frozen_format == FrozenFormat::kStored) {
    frozen = ", frozen weights as published";
    if (fitted.memory.offload == Offload::kSource) frozen += ", some in their files";
  }
  return fmt::format("optimizer {}{}, chosen for {} a rank", mode_text(fitted.optimizer.mode()), frozen,
                     format_bytes(growth_limit));
}

}  // namespace sluice
