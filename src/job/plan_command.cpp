#include "base/bytes.hpp"
#include "job/blueprint.hpp"
#include "job/commands.hpp"
#include "job/console.hpp"
#include "load/streaming_loader.hpp"
#include "train/memory_plan.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace sluice {
namespace {

nlohmann::json as_json(const std::vector<RankMemory>& ranks, const PlanArguments& arguments,
                       const Blueprint& blueprint) {
  nlohmann::json out{{"parameters", blueprint.model.manifest.parameter_count()},
                     {"structure_hash", blueprint.model.manifest.structure_hash().hex()}};
  for (const RankMemory& memory : ranks) {
    nlohmann::json row;
    for (const auto& [name, bytes] : memory.parts()) row[std::string(name) + "_bytes"] = bytes;
    row["peak_bytes"] = memory.peak();
    if (arguments.memory_bytes) row["fits"] = memory.peak() <= *arguments.memory_bytes;
    out["ranks"].push_back(row);
  }
  return out;
}

std::string as_table(const std::vector<RankMemory>& ranks) {
  std::vector<std::vector<std::string>> rows{{"bytes per rank"}};
  for (const auto& [name, bytes] : ranks.front().parts()) rows.front().emplace_back(name);
  rows.front().emplace_back("peak");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : ranks[rank].parts()) row.push_back(format_bytes(bytes));
    row.push_back(format_bytes(ranks[rank].peak()));
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

}  // namespace

int plan_command(const PlanArguments& arguments) {
  const Blueprint blueprint(load_job_config(arguments.job.file, arguments.job.overrides));
  const ShardPlan plan = blueprint.shard_plan(arguments.ranks);
  const std::vector<RankMemory> ranks =
      plan_memory(blueprint.model.config, plan, blueprint.stages, blueprint.config, LoadOptions().ring_slots);
  if (arguments.json) {
    console::write_line(as_json(ranks, arguments, blueprint).dump(2));
    return 0;
  }
  console::write_line(as_table(ranks));
  console::line(
      "  Loading needs weights and staging, what follows all but staging; the process itself comes on top.");
  if (arguments.memory_bytes) print_verdict(ranks, *arguments.memory_bytes);
  return 0;
}

}  // namespace sluice
