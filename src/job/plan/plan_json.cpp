#include "job/plan/plan_json.hpp"

#include "base/bytes.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace sluice {
namespace {

nlohmann::json disk_json(const OffloadPlan& offload, std::optional<std::int64_t> disk_rate) {
  nlohmann::json out{{"weights_bytes", offload.weight_bytes},
                     {"optimizer_bytes", offload.state_bytes},
                     {"step_read_bytes", offload.step_read_bytes},
                     {"step_written_bytes", offload.step_written_bytes}};
  if (disk_rate) out["step_seconds"] = offload.step_seconds(*disk_rate);
  return out;
}

nlohmann::json traffic_json(const StepTraffic& traffic, std::optional<std::int64_t> link_rate) {
  nlohmann::json out{{"all", traffic.all()}};
  for (const auto& [name, bytes] : traffic.parts()) out[std::string(name)] = bytes;
  if (link_rate) out["seconds"] = static_cast<double>(traffic.all()) / static_cast<double>(*link_rate);
  return out;
}

nlohmann::json mode_json(const OptimizerMode& mode) {
  return {{"kind", name_of(mode.kind)},
          {"state", name_of(mode.state)},
          {"master", name_of(mode.master)},
          {"gradients", name_of(mode.gradients)}};
}

nlohmann::json rank_json(const JobPlan& plan, std::size_t rank, const PlanView& view) {
  const RankMemory& memory = plan.ranks[rank];
  nlohmann::json row;
  for (const auto& [name, bytes] : memory.parts()) row[std::string(name) + "_bytes"] = bytes;
  for (const auto& [name, bytes] : memory.phases()) row["phases"][std::string(name) + "_bytes"] = bytes;
  row["peak_bytes"] = memory.peak();
  if (memory.offload.file_bytes() > 0) row["disk"] = disk_json(memory.offload, view.disk_rate);
  if (plan.computes_on_gpus()) {
    row["gpu_peak_bytes"] = memory.on_gpu().peak();
    row["main_memory_peak_bytes"] = memory.beside_gpu().peak();
  }
  if (view.memory_limit) {
    const RankMemory limited = plan.limited_parts()[rank];
    row["fits"] = fit({limited}, *view.memory_limit);
    row["verdict"] = verdict(limited, *view.memory_limit);
  }
  return row;
}

}  // namespace

nlohmann::json to_json(const JobPlan& plan, const PlanView& view) {
  const ParameterManifest& manifest = plan.blueprint->model.manifest;
  nlohmann::json out{{"parameters", manifest.parameter_count()},
                     {"structure_hash", manifest.structure_hash().hex()},
                     {"staging_is_exact", plan.staging.not_exact.empty()},
                     {"stored_parameters", plan.blueprint->stored.elements()},
                     {"threads", plan.machine.threads}};
  if (is_training(plan.config().job.kind)) {
    out["saved_step_bytes"] = plan.saves.step_bytes;
    out["mode"] = mode_json(plan.config().optimizer.mode());
  }
  if (plan.saves.step_bytes_of_host > 0) out["saved_step_bytes_of_a_host"] = plan.saves.step_bytes_of_host;
  if (plan.resumed) out["resumed_step"] = plan.resumed->found.step.step;
  const std::vector<StepTraffic> traffic = plan.step_traffic(view.expert_shares);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    nlohmann::json& row = out["ranks"].emplace_back(rank_json(plan, rank, view));
    row["sent_bytes"] = traffic_json(traffic[rank], view.link_rate);
  }
  return out;
}

std::string json_text(const JobPlan& plan) { return to_json(plan).dump(2) + "\n"; }

bool fit(const std::vector<RankMemory>& ranks, std::int64_t memory_limit) {
  return std::ranges::all_of(ranks, [&](const RankMemory& rank) { return rank.peak() <= memory_limit; });
}

std::string_view verdict(const RankMemory& memory, std::int64_t memory_limit) {
  if (memory.certain() > memory_limit) return "does not fit";
  return memory.peak() > memory_limit ? "may not fit" : "fits";
}

std::string verdict_text(const RankMemory& memory, std::int64_t memory_limit) {
  const std::string_view said = verdict(memory, memory_limit);
  const std::string limit = format_bytes(std::max<std::int64_t>(memory_limit, 0));
  if (said == "fits")
    return fmt::format("fits, leaving {} of {}", format_bytes(memory_limit - memory.peak()), limit);
  if (said == "may not fit")
    return fmt::format("may not fit: it needs {}, and with activations, an estimate, {} of {}",
                       format_bytes(memory.certain()), format_bytes(memory.peak()), limit);
  return fmt::format("does not fit, lacking {} of {}", format_bytes(memory.certain() - memory_limit), limit);
}

}  // namespace sluice
