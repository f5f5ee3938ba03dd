#include "decoder/sequence_cache.hpp"

#include "ops/buffers/host_values.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

AttentionCache attention_cache(const ModelConfig& config, std::int64_t slots, std::int64_t positions,
                               at::TensorOptions options) {
  const auto heads_of = [&](std::int64_t size) {
    return at::zeros({slots, positions, config.key_value_heads, size}, options);
  };
  return {heads_of(config.head_dim), heads_of(config.value_head_dim())};
}

LatentCache latent_cache(const LatentAttentionConfig& latent, std::int64_t slots, std::int64_t positions,
                         at::TensorOptions options) {
  return {at::zeros({slots, positions, latent.rank + latent.rope_dim}, options)};
}

DeltaNetCache delta_net_cache(const LinearAttentionConfig& linear, std::int64_t slots,
                              at::TensorOptions options) {
  const std::int64_t mixed =
      2 * linear.key_heads * linear.key_head_dim + linear.value_heads * linear.value_head_dim;
  return {at::zeros({slots, linear.conv_kernel_size - 1, mixed}, options),
          at::zeros({slots, linear.value_heads, linear.key_head_dim, linear.value_head_dim},
                    options.dtype(at::kFloat))};
}

DeltaNetCache mamba2_cache(const Mamba2Config& mamba, std::int64_t slots, at::TensorOptions options) {
  return {at::zeros({slots, mamba.conv_kernel_size - 1, mamba.mixed()}, options),
          at::zeros({slots, mamba.groups, mamba.state_dim, mamba.width() / mamba.groups},
                    options.dtype(at::kFloat))};
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}
std::int64_t bytes_of(const NoCache& /*cache*/) { return 0; }
std::int64_t bytes_of(const AttentionCache& cache) { return bytes_of(cache.keys) + bytes_of(cache.values); }
std::int64_t bytes_of(const LatentCache& cache) { return bytes_of(cache.rows); }
std::int64_t bytes_of(const ShortConvCache& cache) { return bytes_of(cache.window); }
std::int64_t bytes_of(const DeltaNetCache& cache) { return bytes_of(cache.window) + bytes_of(cache.state); }

}  // namespace

SequenceCache::SequenceCache(const ModelConfig& config, std::int64_t slots, std::int64_t positions,
                             DType dtype, at::Device device)
    : positions_(positions) {
  const at::TensorOptions options = at::TensorOptions(device).dtype(ops::scalar_type(dtype));
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    switch (config.attention[static_cast<std::size_t>(layer)]) {
      case AttentionKind::kNone:
        layers_.emplace_back(NoCache{});
        break;
      case AttentionKind::kFull:
      case AttentionKind::kSliding:
        layers_.emplace_back(attention_cache(config.of_layer(layer), slots, positions, options));
        break;
      case AttentionKind::kLatent:
        layers_.emplace_back(latent_cache(config.latent_attention, slots, positions, options));
        break;
      case AttentionKind::kLinear:
      case AttentionKind::kKimiDelta:
        layers_.emplace_back(delta_net_cache(config.linear_attention, slots, options));
        break;
      case AttentionKind::kMamba2:
        layers_.emplace_back(mamba2_cache(config.mamba2, slots, options));
        break;
      case AttentionKind::kShortConv:
        layers_.emplace_back(
            ShortConvCache{at::zeros({slots, config.short_conv_taps - 1, config.hidden_size}, options)});
        break;
    }
  }
}

void SequenceCache::clear(std::int64_t slot) {
  for (auto& layer : layers_) {
    if (auto* delta_net = std::get_if<DeltaNetCache>(&layer)) {
      delta_net->window[slot].zero_();
      delta_net->state[slot].zero_();
    } else if (auto* short_conv = std::get_if<ShortConvCache>(&layer)) {
      short_conv->window[slot].zero_();
    }
  }
}

bool SequenceCache::can_be_shortened() const {
  return std::ranges::none_of(layers_, [](const auto& layer) {
    return std::holds_alternative<DeltaNetCache>(layer) || std::holds_alternative<ShortConvCache>(layer);
  });
}

std::int64_t SequenceCache::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& layer : layers_)
    bytes += std::visit([](const auto& cache) { return bytes_of(cache); }, layer);
  return bytes;
}

std::vector<SequenceBatch> batches_of(std::span<const SequencePart> parts, at::Device device) {
  std::vector<SequenceBatch> batches;
  for (std::size_t first = 0; first < parts.size();) {
    std::vector<std::int64_t> slots;
    std::size_t next = first;
    for (; next < parts.size() && parts[next].tokens == parts[first].tokens; ++next)
      slots.push_back(parts[next].slot);
    batches.push_back({ops::tensor_of<std::int64_t>(slots, device), parts[first].tokens});
    first = next;
  }
  return batches;
}

}  // namespace sluice
