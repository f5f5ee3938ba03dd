#include "model/blocks/swiglu.hpp"

namespace sluice::blocks {

std::int64_t inner_projections(const ModelConfig& config) { return config.has_gates() ? 2 : 1; }

std::vector<BlockTensor> swiglu_tensors(const ModelConfig& config, const SwigluNames& names,
                                        std::int64_t width, Role role) {
  const std::int64_t hidden = config.hidden_size;
  std::vector<BlockTensor> out;
  if (config.has_gates()) out.push_back({names.gate_proj, {width, hidden}, role});
  out.push_back({names.up_proj, {width, hidden}, role});
  out.push_back({names.down_proj, {hidden, width}, role});
  return out;
}

std::int64_t swiglu_elements(const ModelConfig& config, std::int64_t hidden, std::int64_t width) {
  return 2 * hidden + (inner_projections(config) + 1) * width;
}

}  // namespace sluice::blocks
