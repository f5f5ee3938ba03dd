#include "model/blocks/router.hpp"

#include <fmt/format.h>

namespace sluice::blocks::router {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  return {{kWeight, {config.experts, config.hidden_size}, Role::kRouter}};
}

std::vector<Setting> settings(const ModelConfig& config) {
  return {{"num_experts_per_tok", fmt::to_string(config.experts_per_token)},
          {"norm_topk_prob", config.normalize_expert_weights ? "true" : "false"}};
}

BlockActivations activations(const ModelConfig& config) {
  constexpr std::int64_t kIndexBytes = 8;  // of a chosen expert
  return {.kept = 4 * config.experts + 8 * config.experts_per_token,
          .passed = 2 * config.experts,
          .choice_bytes = config.experts_per_token * kIndexBytes};
}

}  // namespace sluice::blocks::router
