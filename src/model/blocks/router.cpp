#include "model/blocks/router.hpp"

#include "base/dtype.hpp"

#include <fmt/format.h>

namespace sluice::blocks::router {

namespace {

std::vector<std::int64_t> bias_shape(const ModelConfig& config) {
  if (config.router.correction_bias_is_row) return {1, config.experts};
  return {config.experts};
}

}  // namespace

std::string_view weight_name(const ModelConfig& config) {
  return config.router.has_bias ? "mlp.router.weight" : "mlp.gate.weight";
}

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  std::vector<BlockTensor> out{{weight_name(config), {config.experts, config.hidden_size}, Role::kRouter}};
  if (config.router.has_bias) out.push_back({kBias, {config.experts}, Role::kRouter, InitialValues::kZeros});
  if (config.router.scales_input)
    out.push_back({kInputScale, {config.hidden_size}, Role::kRouter, InitialValues::kOnes});
  if (config.router.has_expert_scales)
    out.push_back({kExpertScales, {config.experts}, Role::kRouter, InitialValues::kOnes});
  if (config.router.has_correction_bias)
    out.push_back({kCorrectionBias, bias_shape(config), Role::kRouter, InitialValues::kZeros,
                   TensorKind::kPersistentBuffer});
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  const RouterConfig& router = config.router;
  std::vector<Setting> out{{"num_experts_per_tok", fmt::to_string(config.experts_per_token)},
                           {"norm_topk_prob", router.normalize ? "true" : "false"}};
  const RouterConfig plain{.has_bias = router.has_bias, .normalize = router.normalize};
  if (router == plain) return out;
  out.push_back({"scoring_func", router.score == RouterScore::kSigmoid ? "sigmoid" : "softmax"});
  out.push_back({"n_group", fmt::to_string(router.groups)});
  out.push_back({"topk_group", fmt::to_string(router.chosen_groups)});
  out.push_back({"routed_scaling_factor", fmt::format("{}", router.scale)});
  out.push_back({"epsilon of norm_topk_prob", fmt::format("{}", router.epsilon)});
  if (router.chooses_by_logits) out.push_back({"choice of experts", "by logits"});
  if (router.logit_cap > 0) out.push_back({"bound of logits", fmt::format("{}", router.logit_cap)});
  if (router.least_sum > 0) out.push_back({"moe_norm_min", fmt::format("{}", router.least_sum)});
  return out;
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  constexpr std::int64_t kIndexBytes = 8;  // bytes of the index of a chosen expert
  // Logits are float32 whatever the tokens are, and exist twice while their exponentials are summed.
  // A bound on the logits keeps its slopes too.
  const std::int64_t kept = (pass.keeps_logits ? 1 : 0) + (config.router.logit_cap > 0 ? 1 : 0);
  const std::int64_t logits = kept * config.experts * size_of(DType::kFloat32) / pass.element_bytes;
  // Tokens that are scaled are kept behind the scale; before their norm they are the layer's hidden states. Their
  // gradients pass through both.
  const std::int64_t scaled = config.router.scales_input ? config.hidden_size : 0;
  const std::int64_t weights = (config.router.has_expert_scales ? 16 : 8) * config.experts_per_token;
  return {.kept = 4 * config.experts + weights + logits + scaled,
          .passed = 2 * config.experts + logits + 2 * scaled,
          .choice_bytes = config.experts_per_token * kIndexBytes};
}

}  // namespace sluice::blocks::router
