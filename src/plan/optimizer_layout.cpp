#include "plan/optimizer_layout.hpp"

#include "base/round.hpp"

#include <algorithm>
#include <map>

namespace sluice {
OptimizerLayout::OptimizerLayout(const ParameterManifest& manifest, const ShardPlan& plan, int rank,
                                 const OptimizerMode& mode, DType weights) {
  const std::vector<FlatLayout>& layouts = plan.layouts().units;
  std::int64_t end = 0;
  for (int unit = 0; unit < static_cast<int>(layouts.size()); ++unit) {
    std::vector<MatrixState>& matrices = units_.emplace_back();
    for (const Placement& placement : layouts[static_cast<std::size_t>(unit)].placements()) {
      const TensorInfo& tensor = manifest[placement.tensor];
      if (has_state(tensor)) add_matrices(tensor, placement, plan, unit, rank, matrices);
    }
    std::ranges::stable_sort(matrices, {}, &MatrixState::unit_begin);
    place_states(matrices, manifest, mode, weights, end);
    if (plan.has_pages()) end = round_up(end, kPageAlignment);
    unit_ends_.push_back(end);
  }
  std::vector<MatrixState>& whole = units_.emplace_back();
  for (const BufferPlace& place : plan.layouts().buffers) {
    const TensorInfo& tensor = manifest[place.tensor];
    if (!has_state(tensor)) continue;
    MatrixState& matrix = whole.emplace_back();
    matrix.tensor = place.tensor;
    matrix.shape = matrix_shape(tensor);
    matrix.decays = is_decayed(tensor);
    matrix.is_whole = true;
    matrix.owned = {0, place.count};
    matrix.unit_begin = matrix.arena_begin = place.offset;
  }
  place_states(whole, manifest, mode, weights, end);
  unit_ends_.push_back(end);
}

void OptimizerLayout::place_states(std::vector<MatrixState>& matrices, const ParameterManifest& manifest,
                                   const OptimizerMode& mode, DType weights, std::int64_t& end) {
  std::map<int, TensorState> states;
  for (MatrixState& matrix : matrices) {
    auto found = states.find(matrix.tensor);
    if (found == states.end())
      found = states.emplace(matrix.tensor, describe_state(mode, weights, manifest[matrix.tensor])).first;
    matrix.master = found->second.master;
    matrix.state = found->second.state;
    place_state(matrix, found->second.parts, end);
  }
}

void OptimizerLayout::add_matrices(const TensorInfo& tensor, const Placement& placement,
                                   const ShardPlan& plan, int unit, int rank,
                                   std::vector<MatrixState>& out) const {
  // The rank holds some of the unit's experts; of other units it holds each tensor whole.
  const bool has_experts = plan.has_experts(unit);
  const Range held = plan.held_blocks(placement.tensor, rank);
  const auto shape = matrix_shape(tensor);
  for (std::int64_t block = held.begin; block < held.end; ++block) {
    const Range elements{block * placement.block_elements, (block + 1) * placement.block_elements};
    MatrixState& matrix = out.emplace_back();
    matrix.tensor = placement.tensor;
    matrix.expert = has_experts ? block : -1;
    matrix.shape = shape;
    matrix.decays = is_decayed(tensor);
    matrix.unit_begin = placement.place_of(elements.begin);
    plan.owned_runs(placement.tensor, elements, rank, [&](const ShardPlan::OwnedRun& run) {
      const std::int64_t begin = run.tensor_begin - elements.begin;
      matrix.owned = {begin, begin + run.count};
      matrix.unit_begin = placement.place_of(run.tensor_begin);
      matrix.arena_begin = run.arena_begin;
    });
  }
}

void OptimizerLayout::place_state(MatrixState& matrix, const std::vector<StatePart>& parts,
                                  std::int64_t& end) {
  matrix.offsets.fill(-1);
  for (const StatePart& part : parts) {
    const std::int64_t bytes = part_count(part, matrix.shape, matrix.owned.count()) * size_of(part.dtype);
    if (bytes == 0) continue;
    matrix.offsets[static_cast<std::size_t>(part.array)] = end;
    array_bytes_[static_cast<std::size_t>(part.array)] += bytes;
    end += round_up(bytes, kStateAlignment);
  }
}

}  // namespace sluice
