#include "model/blocks/dense_mlp.hpp"

namespace sluice::blocks::dense_mlp {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  return swiglu_tensors(config, kNames, config.intermediate_size, Role::kDenseMlp);
}

std::vector<Setting> settings(const ModelConfig& config) {
  // Of experts too, which have no gates of another function.
  if (config.gate_activation == GateActivation::kSilu) return {};
  return {{"gates of MLPs", "gelu, by tanh"}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& /*pass*/) {
  const std::int64_t elements = swiglu_elements(config, config.intermediate_size);
  return {.kept = elements, .passed = elements};
}

}  // namespace sluice::blocks::dense_mlp
