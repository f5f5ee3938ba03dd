#include "plan/optimizer_layout.hpp"

#include "base/round.hpp"

#include <algorithm>

namespace sluice {
namespace {

Range overlap(Range a, Range b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

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
  const Range held = plan.gathered_range(unit, rank), owned = plan.owned(unit, rank);
  const std::int64_t to_arena = plan.arena_offset(unit, rank) - owned.begin;
  const bool has_experts = plan.has_experts(unit);  // the rank holds some of them, else all of the tensor
  const std::int64_t first = has_experts ? held.begin / placement.block_stride : 0;
  const std::int64_t blocks = has_experts ? held.count() / placement.block_stride : placement.blocks;
  const auto shape = matrix_shape(tensor);
  for (std::int64_t block = first; block < first + blocks; ++block) {
    const std::int64_t begin = placement.offset + block * placement.block_stride;
    const Range part = overlap(owned, {begin, begin + placement.block_elements});
    out.push_back({.tensor = placement.tensor,
                   .expert = has_experts ? block : -1,
                   .shape = shape,
                   .decays = tensor.shape.size() >= 2,
                   .owned = {part.begin - begin, part.end - begin},
                   .unit_begin = part.count() > 0 ? part.begin : begin,
                   .arena_begin = part.begin + to_arena});
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
