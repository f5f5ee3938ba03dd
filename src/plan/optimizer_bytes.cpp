#include "plan/optimizer_bytes.hpp"

#include "base/round.hpp"
#include "plan/optimizer_layout.hpp"

namespace sluice {

OptimizerBytes::OptimizerBytes(const ParameterManifest& manifest, const ShardPlan& plan,
                               const OptimizerMode& mode, DType weights)
    : plan_(plan) {
  for (const FlatLayout& layout : plan.layouts().units) {
    std::vector<Matrices>& unit = units_.emplace_back();
    for (const Placement& placement : layout.placements()) {
      const TensorInfo& tensor = manifest[placement.tensor];
      if (!has_state(tensor)) continue;
      Matrices matrices{placement, matrix_shape(tensor), describe_state(mode, weights, tensor).parts};
      matrices.whole_bytes = state_bytes(matrices.parts, matrices.shape, placement.block_elements);
      unit.push_back(std::move(matrices));
    }
  }
  for (const BufferPlace& place : plan.layouts().buffers)
    if (const TensorInfo& tensor = manifest[place.tensor]; has_state(tensor))
      whole_bytes_ +=
          state_bytes(describe_state(mode, weights, tensor).parts, matrix_shape(tensor), place.count);
}

std::vector<std::int64_t> OptimizerBytes::of_units(int rank) const {
  std::vector<std::int64_t> bytes(units_.size());
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const Range owned = plan_.owned(static_cast<int>(unit), rank);
    if (owned.count() == 0) continue;
    for (const Matrices& matrices : units_[unit]) bytes[unit] += owned_bytes(matrices, owned);
    if (plan_.has_pages()) bytes[unit] = round_up(bytes[unit], OptimizerLayout::kPageAlignment);
  }
  bytes.push_back(whole_bytes_);
  return bytes;
}

/// Bytes of the matrices that a rank owns. Of consecutive matrices only the first and the last can be owned
/// in part.
std::int64_t OptimizerBytes::owned_bytes(const Matrices& matrices, Range owned) {
  const Placement::Share share = matrices.placement.share_of(owned);
  std::int64_t bytes = share.whole * matrices.whole_bytes;
  for (const std::int64_t part : {share.first, share.last})
    if (part > 0) bytes += state_bytes(matrices.parts, matrices.shape, part);
  return bytes;
}

}  // namespace sluice
