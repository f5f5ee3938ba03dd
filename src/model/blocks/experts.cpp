#include "model/blocks/experts.hpp"

#include "base/compute_sizes.hpp"
#include "model/blocks/swiglu.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::blocks::experts {
namespace {

/// Bytes of the experts' working buffers: slots in the order of experts, and one block of rows, or on a
/// device one of several experts, whose memory its gradients reuse.
std::int64_t working_bytes(const ModelConfig& config, const PassSize& pass) {
  const std::int64_t slots = pass.group_tokens * config.experts_per_token;
  const std::int64_t rows = pass.on_device ? kExpertGroupRows : kExpertBlockRows;
  return slots * 8 + std::min(rows, slots) * swiglu_elements(config, config.expert_intermediate_size) *
                         pass.element_bytes;
}

}  // namespace

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const std::int64_t width = config.expert_intermediate_size;
  std::vector<BlockTensor> out;
  const auto add = [&](std::string_view weight, std::string_view bias, std::int64_t rows,
                       std::int64_t columns) {
    out.push_back({weight, {config.experts, rows, columns}, Role::kExpert});
    if (config.expert_bias)
      out.push_back({bias, {config.experts, rows}, Role::kExpert, InitialValues::kZeros});
  };
  add(inner_proj(config), kGateUpBias, inner_projections(config) * width, config.hidden_size);
  add(kDownProj, kDownBias, config.hidden_size, width);
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  std::vector<Setting> out;
  if (config.gate_up_order == GateUpOrder::kInterleaved) out.push_back({"gate_up_order", "interleaved"});
  if (config.swiglu_limit == 0) return out;
  out.push_back({"swiglu_limit", fmt::format("{}", config.swiglu_limit)});
  out.push_back({"swiglu_alpha", fmt::format("{}", config.swiglu_slope)});
  return out;
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  return {.kept = 2 * config.hidden_size,
          .passed = 2 * config.hidden_size,
          .working_bytes = working_bytes(config, pass)};
}

}  // namespace sluice::blocks::experts
