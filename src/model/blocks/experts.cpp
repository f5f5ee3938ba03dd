#include "model/blocks/experts.hpp"

#include "base/compute_sizes.hpp"
#include "model/blocks/swiglu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace sluice::blocks::experts {
namespace {

/// Bytes of the experts' working buffers: slots in the order of experts, and one block of rows, or on a
/// device one of several experts, whose memory its gradients reuse.
std::int64_t working_bytes(const ModelConfig& config, const PassSize& pass) {
  const std::int64_t slots = pass.group_tokens * config.experts_per_token;
  const std::int64_t rows = pass.on_device ? kExpertGroupRows : kExpertBlockRows;
  const std::int64_t elements =
      swiglu_elements(config, config.expert_hidden_size(), config.expert_intermediate_size);
  return slots * 8 + std::min(rows, slots) * elements * pass.element_bytes;
}

/// Limits of one layer: that of routed experts, and those of others if there are any.
std::string limits_text(const SwigluLimits& limits) {
  if (limits.shared_expert == 0 && limits.dense == 0) return fmt::format("{}", limits.experts);
  return fmt::format("{}/{}/{}", limits.experts, limits.shared_expert, limits.dense);
}

std::string limits_text(const ModelConfig& config) {
  if (config.limits_by_layer.empty()) return limits_text(config.swiglu_limits);
  std::string out;
  for (const SwigluLimits& limits : config.limits_by_layer)
    out += (out.empty() ? "" : ", ") + limits_text(limits);
  return out;
}

}  // namespace

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const std::int64_t width = config.expert_intermediate_size, hidden = config.expert_hidden_size();
  std::vector<BlockTensor> out;
  const auto add = [&](std::string_view weight, std::string_view bias, std::int64_t rows,
                       std::int64_t columns) {
    out.push_back({weight, {config.experts, rows, columns}, Role::kExpert});
    if (config.expert_bias)
      out.push_back({bias, {config.experts, rows}, Role::kExpert, InitialValues::kZeros});
  };
  add(inner_proj(config), kGateUpBias, inner_projections(config) * width, hidden);
  add(kDownProj, kDownBias, hidden, width);
  if (config.expert_latent_size == 0) return out;
  out.push_back({kLatentIn, {hidden, config.hidden_size}, Role::kSharedExpert});
  out.push_back({kLatentOut, {config.hidden_size, hidden}, Role::kSharedExpert});
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out;
  if (config.gate_up_order == GateUpOrder::kInterleaved) out.push_back({"gate_up_order", "interleaved"});
  if (config.limits_by_layer.empty() && config.swiglu_limits == SwigluLimits{}) return out;
  out.push_back({"swiglu_limit", limits_text(config)});
  if (config.swiglu_clamp == SwigluClamp::kSilu)
    out.push_back({"clamp of MLPs", "behind silu"});
  else
    out.push_back({"swiglu_alpha", fmt::format("{}", config.swiglu_slope)});
  return out;
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  // With a latent width tokens are kept before and behind the projection to it, and results on either side of the
  // projection back.
  const std::int64_t elements = 2 * config.hidden_size + 2 * config.expert_latent_size;
  return {.kept = elements,
          .passed = elements,
          .choice_bytes = config.expert_latent_size * pass.element_bytes,
          .working_bytes = working_bytes(config, pass)};
}

}  // namespace sluice::blocks::experts
