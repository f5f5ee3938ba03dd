#include "model/blocks/dense_mlp.hpp"

namespace sluice::blocks::dense_mlp {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  return swiglu_tensors(kNames, config.intermediate_size, config.hidden_size, Role::kDenseMlp);
}

std::vector<Setting> settings(const ModelConfig& config) {
  // Of experts too, which have no gates of another function.
  if (config.gate_activation == GateActivation::kSilu) return {};
  return {{"gates of MLPs", "gelu, by tanh"}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& /*pass*/) {
  const std::int64_t elements = 2 * config.hidden_size + 3 * config.intermediate_size;
  return {.kept = elements, .passed = elements};
}

}  // namespace sluice::blocks::dense_mlp
