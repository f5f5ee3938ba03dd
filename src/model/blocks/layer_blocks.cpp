#include "model/blocks/layer_blocks.hpp"

#include "base/error.hpp"
#include "model/blocks/attention.hpp"
#include "model/blocks/dense_mlp.hpp"
#include "model/blocks/gated_delta_net.hpp"
#include "model/blocks/kimi_delta.hpp"
#include "model/blocks/latent_attention.hpp"
#include "model/blocks/mamba2.hpp"
#include "model/blocks/moe.hpp"
#include "model/blocks/norms.hpp"
#include "model/blocks/short_conv.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice {
namespace {

constexpr std::array kLayerBlocks{
    LayerBlock{AttentionKind::kFull, "full_attention", "with full attention", blocks::attention::tensors,
               blocks::attention::settings, blocks::attention::activations, blocks::attention::cache},
    LayerBlock{AttentionKind::kSliding, "sliding_attention", "with sliding attention",
               blocks::attention::tensors, blocks::attention::sliding_settings,
               blocks::attention::activations, blocks::attention::cache},
    LayerBlock{AttentionKind::kLatent, "latent_attention", "with latent attention",
               blocks::latent_attention::tensors, blocks::latent_attention::settings,
               blocks::latent_attention::activations, blocks::latent_attention::cache},
    LayerBlock{AttentionKind::kLinear, "linear_attention", "with linear attention",
               blocks::gated_delta_net::tensors, blocks::gated_delta_net::settings,
               blocks::gated_delta_net::activations, blocks::gated_delta_net::cache},
    LayerBlock{AttentionKind::kShortConv, "short_convolution", "with short convolution",
               blocks::short_conv::tensors, blocks::short_conv::settings, blocks::short_conv::activations,
               blocks::short_conv::cache},
    LayerBlock{AttentionKind::kMamba2, "mamba2", "with Mamba-2", blocks::mamba2::tensors,
               blocks::mamba2::settings, blocks::mamba2::activations, blocks::mamba2::cache},
    LayerBlock{AttentionKind::kKimiDelta, "kimi_delta_attention", "with Kimi delta attention",
               blocks::kimi_delta::tensors, blocks::kimi_delta::settings, blocks::kimi_delta::activations,
               blocks::gated_delta_net::cache},
    LayerBlock{MlpKind::kDense, "dense", "dense", blocks::dense_mlp::tensors, blocks::dense_mlp::settings,
               blocks::dense_mlp::activations},
    LayerBlock{MlpKind::kMoe, "moe", "with experts", blocks::moe::tensors, blocks::moe::settings,
               blocks::moe::activations},
};

template <class Kind>
const LayerBlock& find_block(Kind kind) {
  const auto found =
      std::ranges::find(kLayerBlocks, std::variant<AttentionKind, MlpKind>(kind), &LayerBlock::kind);
  SLUICE_ASSERT(found != kLayerBlocks.end(), "layer_blocks.cpp lists no block of kind {}",
                static_cast<int>(kind));
  return *found;
}

/// The blocks of a layer: its token mixer, and those of its MLP, as far as it has them.
std::vector<const LayerBlock*> blocks_of(const ModelConfig& config, int layer) {
  const auto index = static_cast<std::size_t>(layer);
  std::vector<const LayerBlock*> out;
  if (config.has_mixer(layer)) out.push_back(&block_of(config.attention[index]));
  if (config.layers[index] == MlpKind::kDense || config.layers[index] == MlpKind::kDenseAndMoe)
    out.push_back(&block_of(MlpKind::kDense));
  if (config.has_experts(layer)) out.push_back(&block_of(MlpKind::kMoe));
  return out;
}

}  // namespace

std::int64_t LayerBlock::count_in(const ModelConfig& config) const {
  std::int64_t count = 0;
  for (int layer = 0; layer < config.layer_count(); ++layer)
    count += std::ranges::count(blocks_of(config, layer), this);
  return count;
}

std::span<const LayerBlock> layer_blocks() { return kLayerBlocks; }

const LayerBlock& block_of(AttentionKind kind) { return find_block(kind); }

const LayerBlock& block_of(MlpKind kind) { return find_block(kind); }

std::vector<BlockTensor> layer_tensors(const ModelConfig& config, int layer) {
  std::vector<BlockTensor> out;
  const auto add = [&](const std::vector<BlockTensor>& tensors) {
    out.insert(out.end(), tensors.begin(), tensors.end());
  };
  const ModelConfig own = config.of_layer(layer);
  for (const LayerBlock* block : blocks_of(config, layer)) add(block->tensors(own));
  add(blocks::norms::layer_tensors(config, layer));
  return out;
}

LayerActivationSizes layer_activations(const ModelConfig& config, int layer, const PassSize& pass) {
  const ModelConfig own = config.of_layer(layer);
  LayerActivationSizes out;
  for (const LayerBlock* block : blocks_of(config, layer))
    (block->mixes_tokens() ? out.mixer : out.mlp) += block->activations(own, pass);
  return out;
}

BlockCache layer_cache(const ModelConfig& config, int layer, std::int64_t element_bytes) {
  for (const LayerBlock* block : blocks_of(config, layer))
    if (block->cache != nullptr) return block->cache(config.of_layer(layer), element_bytes);
  return {};
}

}  // namespace sluice
