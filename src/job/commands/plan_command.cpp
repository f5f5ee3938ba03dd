#include "base/bytes.hpp"
#include "job/blueprint.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/fit_advice.hpp"
#include "job/commands/planned_job.hpp"
#include "job/console.hpp"
#include "job/prepare/load_request.hpp"
#include "job/prepare/workload.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

bool fit(const std::vector<RankMemory>& ranks, std::int64_t memory_bytes) {
  return std::ranges::all_of(ranks, [&](const RankMemory& rank) { return rank.peak() <= memory_bytes; });
}

/// The loader's ring on each rank, and why it is only known at most, or "".
struct Staging {
  std::vector<std::int64_t> bytes;
  std::string not_exact;
};

/// From the plan that a run would load by, if there are files to make it from.
Staging plan_staging(const Blueprint& blueprint, const ShardPlan& shards) {
  const std::vector<int> nodes = separate_nodes(shards.world());
  Staging staging{largest_staging(blueprint, shards, nodes), ""};
  const ModelSettings& model = blueprint.config.model;
  if (model.init == ModelInit::kRandom) return staging;
  staging.not_exact = fmt::format("there are no weights in {} to plan with", model.path.string());
  if (!holds_weights(model.path)) return staging;
  try {
    return {planned_staging(plan_load(load_request(blueprint, shards, nodes)).plan), ""};
  } catch (const Error& error) {
    staging.not_exact = error.what();
    return staging;
  }
}

nlohmann::json as_json(const std::vector<RankMemory>& ranks, const PlanArguments& arguments,
                       const Blueprint& blueprint, const Staging& staging) {
  nlohmann::json out{{"parameters", blueprint.model.manifest.parameter_count()},
                     {"structure_hash", blueprint.model.manifest.structure_hash().hex()},
                     {"staging_is_exact", staging.not_exact.empty()}};
  const OptimizerMode mode = blueprint.config.optimizer.mode();
  if (blueprint.config.job.kind == JobKind::kTrain)
    out["mode"] = {{"kind", name_of(mode.kind)},
                   {"state", name_of(mode.state)},
                   {"master", name_of(mode.master)},
                   {"gradients", name_of(mode.gradients)}};
  for (const RankMemory& memory : ranks) {
    nlohmann::json row;
    for (const auto& [name, bytes] : memory.parts()) row[std::string(name) + "_bytes"] = bytes;
    for (const auto& [name, bytes] : memory.phases()) row["phases"][std::string(name) + "_bytes"] = bytes;
    row["peak_bytes"] = memory.peak();
    if (arguments.memory_bytes) row["fits"] = memory.peak() <= *arguments.memory_bytes;
    out["ranks"].push_back(row);
  }
  if (!arguments.memory_bytes || fit(ranks, *arguments.memory_bytes)) return out;
  for (const FitAdvice& advice : advise(blueprint, arguments.ranks, *arguments.memory_bytes, staging.bytes))
    out["would_fit"].push_back({{"change", advice.change}, {"peak_bytes", advice.peak_bytes}});
  return out;
}

/// A row for each rank, a column for each of the named numbers that `list` makes of it.
template <class List>
std::string as_table(const std::vector<RankMemory>& ranks, std::string_view title, List list) {
  std::vector<std::vector<std::string>> rows{{std::string(title)}};
  for (const auto& [name, bytes] : list(ranks.front())) rows.front().emplace_back(name);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : list(ranks[rank])) row.push_back(bytes > 0 ? format_bytes(bytes) : "-");
  }
  return console::table(rows);
}

void print_verdict(const std::vector<RankMemory>& ranks, std::int64_t memory_bytes) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t left = memory_bytes - ranks[rank].peak();
    console::line("rank {}: {} {} of {}", rank, left >= 0 ? "fits, leaving" : "does not fit, lacking",
                  format_bytes(std::abs(left)), format_bytes(memory_bytes));
  }
}

/// Where the job does not fit: what takes most, and what would help.
void print_advice(const std::vector<RankMemory>& ranks, const std::vector<FitAdvice>& advice) {
  const RankMemory& most = *std::ranges::max_element(ranks, {}, &RankMemory::peak);
  if (most.optimizer > 0)
    console::line("The optimizer takes {} of these {}: {} of moments and master weights, {} of gradients.",
                  format_bytes(most.optimizer + most.gradients), format_bytes(most.peak()),
                  format_bytes(most.optimizer), format_bytes(most.gradients));
  console::line("{}",
                advice.empty() ? "Nothing known would make it fit." : "It would fit with one of these:");
  for (const FitAdvice& option : advice)
    console::line("  {}: {} per rank", option.change, format_bytes(option.peak_bytes));
}

}  // namespace

int plan_command(const PlanArguments& arguments) {
  const Blueprint blueprint(planned_job(arguments.job));
  const ShardPlan plan = blueprint.shard_plan(arguments.ranks);
  const Staging staging = plan_staging(blueprint, plan);
  const std::vector<RankMemory> ranks =
      blueprint.memory_plan(plan, workload_of(blueprint.config), staging.bytes);
  if (arguments.json) {
    console::write_line(as_json(ranks, arguments, blueprint, staging).dump(2));
    return 0;
  }
  console::write_line(as_table(ranks, "bytes per rank", [](const RankMemory& rank) { return rank.parts(); }));
  console::write_line(
      as_table(ranks, "needed at once", [](const RankMemory& rank) { return rank.phases(); }));
  console::line("  The process itself, with its code and libraries, comes on top.");
  if (!staging.not_exact.empty()) console::line("  Staging is what it may be at most: {}", staging.not_exact);
  if (!arguments.memory_bytes) return 0;
  print_verdict(ranks, *arguments.memory_bytes);
  if (!fit(ranks, *arguments.memory_bytes))
    print_advice(ranks, advise(blueprint, arguments.ranks, *arguments.memory_bytes, staging.bytes));
  return 0;
}

}  // namespace sluice
