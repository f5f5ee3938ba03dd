#include "model/blocks/short_conv.hpp"

namespace sluice::blocks::short_conv {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  return {{kConv, {hidden, 1, config.short_conv_taps}, Role::kLinearAttention},
          {kInProj, {3 * hidden, hidden}, Role::kLinearAttention},
          {kOutProj, {hidden, hidden}, Role::kLinearAttention}};
}

std::vector<Setting> settings(const ModelConfig& /*config*/) { return {}; }

BlockActivations activations(const ModelConfig& config, const PassSize& /*pass*/) {
  // Kept are the block's input, what it is projected to, and what goes into the convolution, out of it, and into
  // the output projection.
  return {.kept = 7 * config.hidden_size, .passed = 6 * config.hidden_size};
}

BlockCache cache(const ModelConfig& config, std::int64_t element_bytes) {
  return {.sequence_bytes = (config.short_conv_taps - 1) * config.hidden_size * element_bytes};
}

}  // namespace sluice::blocks::short_conv
