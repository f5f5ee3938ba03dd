#include "model/blocks/dense_mlp.hpp"

namespace sluice::blocks::dense_mlp {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  return swiglu_tensors(config, kNames, config.intermediate_size, Role::kDenseMlp);
}

std::vector<Setting> settings(const ModelConfig& config) {
  // Told here for all MLPs: those of experts have the same activation.
  switch (config.mlp_activation) {
    case MlpActivation::kSilu:
      break;
    case MlpActivation::kGeluTanh:
      return {{"activation of MLPs", "gelu, by tanh"}};
    case MlpActivation::kSquaredRelu:
      return {{"activation of MLPs", "squared relu, without a gate"}};
  }
  return {};
}

BlockActivations activations(const ModelConfig& config, const PassSize& /*pass*/) {
  const std::int64_t elements = swiglu_elements(config, config.hidden_size, config.intermediate_size);
  return {.kept = elements, .passed = elements};
}

}  // namespace sluice::blocks::dense_mlp
