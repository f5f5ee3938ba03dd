#include "plan/optimizer_layout.hpp"

#include "base/round.hpp"

#include <algorithm>

namespace sluice {
OptimizerLayout::OptimizerLayout(const ParameterManifest& manifest, const ShardPlan& plan, int rank,
                                 const OptimizerMode& mode, DType weights) {
  const std::vector<FlatLayout>& layouts = plan.layouts().units;
  std::int64_t end = 0;
  std::vector<TensorState> states(manifest.tensors().size());
  for (int unit = 0; unit < static_cast<int>(layouts.size()); ++unit) {
    std::vector<MatrixState>& matrices = units_.emplace_back();
    for (const Placement& placement : layouts[static_cast<std::size_t>(unit)].placements()) {
      const TensorInfo& tensor = manifest[placement.tensor];
      if (!has_state(tensor)) continue;
      states[static_cast<std::size_t>(placement.tensor)] = describe_state(mode, weights, tensor);
      add_matrices(tensor, placement, plan, unit, rank, matrices);
    }
    std::ranges::stable_sort(matrices, {}, &MatrixState::unit_begin);
    for (MatrixState& matrix : matrices) {
      const TensorState& state = states[static_cast<std::size_t>(matrix.tensor)];
      matrix.master = state.master;
      matrix.state = state.state;
      place_state(matrix, state.parts, end);
    }
    if (plan.has_pages()) end = round_up(end, kPageAlignment);
    unit_ends_.push_back(end);
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
