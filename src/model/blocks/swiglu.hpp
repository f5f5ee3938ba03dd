// The three matrices of a SwiGLU, for dense MLPs and shared experts.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks {

/// Names of the three projections of a SwiGLU.
struct SwigluNames {
  std::string_view gate_proj, up_proj, down_proj;
};

/// Tensors of a SwiGLU: gate_proj and up_proj [width, hidden], down_proj [hidden, width].
[[nodiscard]] std::vector<BlockTensor> swiglu_tensors(const SwigluNames& names, std::int64_t width,
                                                      std::int64_t hidden, Role role);

}  // namespace sluice::blocks
