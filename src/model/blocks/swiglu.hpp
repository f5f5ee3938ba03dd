// The matrices of an MLP, three with a gate and two without, for dense MLPs and shared experts.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks {

/// Names of the projections of an MLP; without a gate gate_proj counts for nothing.
struct SwigluNames {
  std::string_view gate_proj, up_proj, down_proj;
};

/// Number of projections to the inner width of an MLP: gate and up, or up alone.
[[nodiscard]] std::int64_t inner_projections(const ModelConfig& config);
/// Tensors of an MLP of this inner width: gate_proj, where the model's MLPs have a gate, and up_proj [width, hidden],
/// down_proj [hidden, width].
[[nodiscard]] std::vector<BlockTensor> swiglu_tensors(const ModelConfig& config, const SwigluNames& names,
                                                      std::int64_t width, Role role);
/// Elements of a token that an MLP on vectors of `hidden` elements keeps for its backward: input, output, projections
/// and activation.
[[nodiscard]] std::int64_t swiglu_elements(const ModelConfig& config, std::int64_t hidden,
                                           std::int64_t width);

}  // namespace sluice::blocks
