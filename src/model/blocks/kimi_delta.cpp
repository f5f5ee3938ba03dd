#include "model/blocks/kimi_delta.hpp"

#include "base/compute_sizes.hpp"
#include "base/dtype.hpp"
#include "base/round.hpp"
#include "model/blocks/gated_delta_net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace sluice::blocks::kimi_delta {
namespace {

/// Adds one projection [width, hidden], or two by way of a low rank if the model has one.
void add_projection(const ModelConfig& config, std::string_view whole, std::string_view first,
                    std::string_view second, std::int64_t width, std::vector<BlockTensor>& out) {
  const std::int64_t hidden = config.hidden_size, rank = config.linear_attention.gate_rank;
  if (rank == 0) {
    out.push_back({whole, {width, hidden}, Role::kLinearAttention});
    return;
  }
  out.push_back({first, {rank, hidden}, Role::kLinearAttention});
  out.push_back({second, {width, rank}, Role::kLinearAttention});
}

/// Bytes that threads hold while they decay a chunk's queries and keys by channel: rows of a head, decayed rows, and the
/// gradients of both, in float32 and padded to 64 channels.
std::int64_t channel_products_bytes(const LinearAttentionConfig& linear, const PassSize& pass) {
  constexpr std::int64_t kArrays = 11, kPadded = 64;
  const std::int64_t workers = std::min(pass.workers(), pass.sequences * linear.value_heads);
  return workers * kArrays * kDeltaChunkPositions * round_up(linear.key_head_dim, kPadded) *
         size_of(DType::kFloat32);
}

}  // namespace

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const std::int64_t hidden = config.hidden_size, heads = linear.value_heads,
                     width = heads * linear.value_head_dim;
  constexpr Role kRole = Role::kLinearAttention;
  constexpr TensorKind kFloat32 = TensorKind::kFloat32Parameter;
  const std::vector<std::int64_t> rates =
      linear.rate_has_four_dims ? std::vector<std::int64_t>{1, 1, heads, 1} : std::vector{heads};
  std::vector<BlockTensor> out{{kQProj, {width, hidden}, kRole},
                               {kKProj, {width, hidden}, kRole},
                               {kVProj, {width, hidden}, kRole},
                               {kConv1d, {3 * width, 1, linear.conv_kernel_size}, kRole},
                               {kDtBias, {width}, kRole, InitialValues::kTimeSteps, kFloat32},
                               {kALog, rates, kRole, InitialValues::kLogOfUniformFrom1, kFloat32}};
  add_projection(config, kFProj, kFAProj, kFBProj, width, out);
  out.push_back({kBProj, {heads, hidden}, kRole});
  add_projection(config, kGProj, kGAProj, kGBProj, width, out);
  out.push_back({kNorm, {linear.value_head_dim}, Role::kNorm});
  out.push_back({kOProj, {hidden, width}, kRole});
  return out;
}

std::vector<Setting> settings(const ModelConfig& config) {
  const std::optional<double>& least = config.linear_attention.least_log_decay;
  if (!least) return {};
  return {{"kda_lower_bound", fmt::format("{}", *least)}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const std::int64_t width = linear.value_heads * linear.value_head_dim;
  // A decay is made in float32: of its projection with the bias, and of that softplus or sigmoid.
  const std::int64_t decays = 3 * width * size_of(DType::kFloat32) / pass.element_bytes;
  return {.kept = config.hidden_size + 11 * width + 2 * linear.gate_rank + decays + 8 * linear.value_heads +
                  gated_delta_net::state_elements(linear, pass),
          .passed = 8 * width + decays,
          .working_bytes = gated_delta_net::working_bytes(linear, pass, linear.key_head_dim) +
                           channel_products_bytes(linear, pass)};
}

}  // namespace sluice::blocks::kimi_delta
