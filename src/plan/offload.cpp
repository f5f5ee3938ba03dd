#include "plan/offload.hpp"

#include "base/round.hpp"

#include <algorithm>

namespace sluice {
namespace {

/// Bytes of a unit of experts: its weights and its optimizer state.
struct ExpertsBytes {
  int unit = -1;
  std::int64_t weights = 0, state = 0;
  bool is_trained = false;
};

std::vector<ExpertsBytes> experts_of(const ShardPlan& shards, std::span<const std::int64_t> state_bytes,
                                     int rank, DType dtype) {
  std::vector<ExpertsBytes> all;
  for (int unit = 0; unit < static_cast<int>(shards.layouts().units.size()); ++unit) {
    const std::int64_t elements = shards.owned(unit, rank).count();
    if (!shards.has_experts(unit) || elements == 0) continue;
    all.push_back({.unit = unit,
                   .weights = round_up(elements, shards.alignment()) * size_of(dtype),
                   .state = state_bytes.empty() ? 0 : state_bytes[static_cast<std::size_t>(unit)],
                   .is_trained = shards.is_trained(unit)});
  }
  return all;
}

/// Whether number `index` of `all` is among `some` of them that are spread evenly; the first and the last one
/// are only if all are.
bool is_among(std::size_t index, std::size_t some, std::size_t all) {
  return (index + 1) * some / (all + 1) != index * some / (all + 1) || some == all;
}

OffloadPlan make_plan(const std::vector<ExpertsBytes>& experts, std::size_t units, std::size_t states,
                      std::size_t weights, const Workload& work) {
  OffloadPlan plan;
  plan.units.resize(units);
  std::int64_t largest = 0, first = 0, last = 0, trained = 0;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    OffloadedUnit& unit = plan.units[static_cast<std::size_t>(experts[i].unit)];
    unit.state = experts[i].state > 0 && is_among(i, states, experts.size());
    unit.weights = is_among(i, weights, experts.size());
    const std::int64_t weight_bytes = unit.weights ? experts[i].weights : 0,
                       state_bytes = unit.state ? experts[i].state : 0;
    plan.weight_bytes += weight_bytes;
    plan.state_bytes += state_bytes;
    if (experts[i].is_trained) trained += weight_bytes;
    largest = std::max(largest, weight_bytes + state_bytes);
    if (unit.any() && first == 0) first = weight_bytes;
    if (unit.any()) last = weight_bytes;
  }
  plan.buffer_bytes = 3 * largest;
  // Forward and, in a job that trains, backward: the unit that ends a pass is still in memory when the next
  // pass begins with it.
  plan.step_read_bytes = plan.weight_bytes;
  if (!work.trains) return plan;
  const bool reads_twice = work.optimizer.clip == ClipRule::kGlobal;
  plan.step_read_bytes = 2 * plan.weight_bytes - first - last + plan.state_bytes;
  if (reads_twice) plan.step_read_bytes += plan.weight_bytes;
  plan.step_written_bytes = trained + plan.state_bytes;
  return plan;
}

/// Units of stored experts that one rank owns alone.
std::vector<int> units_in_files(const ShardPlan& shards) {
  std::vector<int> units;
  for (int unit = 0; unit < static_cast<int>(shards.layouts().units.size()); ++unit)
    if (shards.is_stored(unit) && shards.has_experts(unit) && shards.sharers(unit) == 1)
      units.push_back(unit);
  return units;
}

}  // namespace

int layers_in_files(const ShardPlan& shards) { return static_cast<int>(units_in_files(shards).size()); }

OffloadPlan plan_source(const ShardPlan& shards, const std::vector<std::vector<StoredBytes>>& stored,
                        int rank, int layers, const Workload& work) {
  const std::vector<int> units = units_in_files(shards);
  OffloadPlan plan;
  plan.units.resize(shards.layouts().units.size());
  std::int64_t largest = 0;
  std::vector<std::int64_t> codes;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!is_among(i, static_cast<std::size_t>(layers), units.size())) continue;
    const StoredBytes& own = stored[static_cast<std::size_t>(units[i])][static_cast<std::size_t>(rank)];
    plan.units[static_cast<std::size_t>(units[i])].weights = true;
    plan.weight_bytes += own.codes;
    largest = std::max(largest, own.all());
    codes.push_back(own.codes);
  }
  plan.buffer_bytes = 2 * largest + kSourceReadBytes;
  if (codes.size() <= 2) return plan;  // two units fit both slots and stay in memory
  plan.step_read_bytes = plan.weight_bytes;
  if (!work.trains) return plan;
  // The two units that end a pass are still in memory when the next pass begins with them.
  const bool reads_twice =
      work.optimizer.gradients == GradientMode::kRelease && work.optimizer.clip == ClipRule::kGlobal;
  plan.step_read_bytes = (reads_twice ? 3 : 2) * plan.weight_bytes - codes[0] - codes[1] -
                         codes[codes.size() - 2] - codes.back();
  return plan;
}

OffloadPlan plan_offload(const ShardPlan& shards, std::span<const std::int64_t> state_bytes, int rank,
                         const Workload& work, std::int64_t excess) {
  if (excess <= 0) return {};
  const std::vector<ExpertsBytes> experts = experts_of(shards, state_bytes, rank, work.dtype);
  const std::size_t units = shards.layouts().units.size(), all = experts.size();
  const std::size_t most_states = state_bytes.empty() ? 0 : all;
  OffloadPlan plan;
  const auto is_enough = [&](std::size_t states, std::size_t weights) {
    plan = make_plan(experts, units, states, weights, work);
    return plan.file_bytes() - plan.buffer_bytes >= excess;
  };
  for (std::size_t states = 1; states <= most_states; ++states)
    if (is_enough(states, 0)) return plan;
  for (std::size_t weights = 1; weights <= all; ++weights)
    if (is_enough(most_states, weights)) return plan;
  return plan;
}

}  // namespace sluice
