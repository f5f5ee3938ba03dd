#include "model/blocks/shared_expert.hpp"

namespace sluice::blocks::shared_expert {
namespace {

constexpr SwigluNames kGatedNames{"mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight",
                                  "mlp.shared_expert.down_proj.weight"};
constexpr SwigluNames kPlainNames{"mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight",
                                  "mlp.shared_experts.down_proj.weight"};

}  // namespace

const SwigluNames& names(const ModelConfig& config) {
  return config.shared_expert_gate ? kGatedNames : kPlainNames;
}

bool is_in(const ModelConfig& config) { return config.shared_expert_intermediate_size > 0; }

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  std::vector<BlockTensor> out =
      swiglu_tensors(config, names(config), config.shared_expert_intermediate_size, Role::kSharedExpert);
  if (config.shared_expert_gate) out.push_back({kGate, {1, config.hidden_size}, Role::kSharedExpert});
  return out;
}

BlockActivations activations(const ModelConfig& config) {
  const std::int64_t elements =
      swiglu_elements(config, config.hidden_size, config.shared_expert_intermediate_size);
  return {.kept = elements, .passed = elements};
}

}  // namespace sluice::blocks::shared_expert
