#include "model/blocks/shared_expert.hpp"

namespace sluice::blocks::shared_expert {

bool is_in(const ModelConfig& config) { return config.shared_expert_intermediate_size > 0; }

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  std::vector<BlockTensor> out =
      swiglu_tensors(kNames, config.shared_expert_intermediate_size, config.hidden_size, Role::kSharedExpert);
  out.push_back({kGate, {1, config.hidden_size}, Role::kSharedExpert});
  return out;
}

BlockActivations activations(const ModelConfig& config) {
  const std::int64_t elements = 2 * config.hidden_size + 3 * config.shared_expert_intermediate_size;
  return {.kept = elements, .passed = elements};
}

}  // namespace sluice::blocks::shared_expert
