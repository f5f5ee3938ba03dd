#include "model/blocks/gated_delta_net.hpp"

#include "base/compute_sizes.hpp"
#include "base/dtype.hpp"
#include "base/round.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::blocks::gated_delta_net {
namespace {

/// Widths of all values, and of the convolution's input: queries, keys and values.
struct Widths {
  std::int64_t values = 0, mixed = 0;
};

Widths widths(const LinearAttentionConfig& linear) {
  const std::int64_t values = linear.value_heads * linear.value_head_dim;
  return {values, 2 * linear.key_heads * linear.key_head_dim + values};
}

}  // namespace

std::int64_t state_elements(const LinearAttentionConfig& linear, const PassSize& pass) {
  const std::int64_t states = divide_up(pass.length, kDeltaChunkPositions) * widths(linear).values *
                              linear.key_head_dim * size_of(DType::kFloat32) / pass.element_bytes;
  return divide_up(states, pass.length);
}

std::int64_t working_bytes(const LinearAttentionConfig& linear, const PassSize& pass, std::int64_t decays) {
  constexpr std::int64_t kChunk = kDeltaChunkPositions;
  const std::int64_t graph = 9 * kChunk * kChunk +
                             12 * kChunk * (linear.key_head_dim + linear.value_head_dim) +
                             8 * kChunk * (decays - 1) + 4 * linear.key_head_dim * linear.value_head_dim;
  const std::int64_t chunks =
      pass.on_device ? std::min(kDeltaChunksOnDevice, divide_up(pass.length, kChunk)) : 1;
  return pass.sequences * linear.value_heads * chunks * graph * size_of(DType::kFloat32);
}

std::vector<BlockTensor> tensors(const ModelConfig& config) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const std::int64_t hidden = config.hidden_size;
  const auto [values, mixed] = widths(linear);
  return {{kDtBias, {linear.value_heads}, Role::kLinearAttention, InitialValues::kOnes},
          {kALog, {linear.value_heads}, Role::kLinearAttention, InitialValues::kLogOfUniform16},
          {kConv1d, {mixed, 1, linear.conv_kernel_size}, Role::kLinearAttention},
          {kNorm, {linear.value_head_dim}, Role::kNorm},
          {kOutProj, {hidden, values}, Role::kLinearAttention},
          {kInProjQkv, {mixed, hidden}, Role::kLinearAttention},
          {kInProjZ, {values, hidden}, Role::kLinearAttention},
          {kInProjB, {linear.value_heads, hidden}, Role::kLinearAttention},
          {kInProjA, {linear.value_heads, hidden}, Role::kLinearAttention}};
}

std::vector<Setting> settings(const ModelConfig& config) {
  return {{"linear_num_key_heads", fmt::to_string(config.linear_attention.key_heads)},
          {"linear_num_value_heads", fmt::to_string(config.linear_attention.value_heads)}};
}

BlockActivations activations(const ModelConfig& config, const PassSize& pass) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const auto [values, mixed] = widths(linear);
  return {.kept = config.hidden_size + 2 * mixed + 4 * values + 8 * linear.value_heads +
                  state_elements(linear, pass),
          .passed = 2 * mixed + 2 * values,
          .working_bytes = working_bytes(linear, pass, 1)};
}

BlockCache cache(const ModelConfig& config, std::int64_t element_bytes) {
  const LinearAttentionConfig& linear = config.linear_attention;
  const auto [values, mixed] = widths(linear);
  return {.sequence_bytes = (linear.conv_kernel_size - 1) * mixed * element_bytes +
                            values * linear.key_head_dim * size_of(DType::kFloat32)};
}

}  // namespace sluice::blocks::gated_delta_net
