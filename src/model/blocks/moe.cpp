#include "model/blocks/moe.hpp"

#include "model/blocks/experts.hpp"
#include "model/blocks/router.hpp"
#include "model/blocks/shared_expert.hpp"

#include <utility>

namespace sluice::blocks::moe {

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  std::vector<BlockTensor> out = router::tensors(config), next = experts::tensors(config);
  if (config.experts_before_router) std::swap(out, next);
  out.insert(out.end(), next.begin(), next.end());
  if (!shared_expert::is_in(config)) return out;
  next = shared_expert::tensors(config);
  out.insert(out.end(), next.begin(), next.end());
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out = router::settings(config);
  const std::vector<Setting> of_experts = experts::settings(config);
  out.insert(out.end(), of_experts.begin(), of_experts.end());
  return out;
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  BlockActivations out = router::activations(config, pass);
  out += experts::activations(config, pass);
  if (shared_expert::is_in(config)) out += shared_expert::activations(config);
  return out;
}

}  // namespace sluice::blocks::moe
