// Every block that a layer can be made of. A new one is described in a file of this folder, listed in
// layer_blocks.cpp, and computed in decoder/.
#pragma once

#include "model/blocks/block.hpp"

#include <span>
#include <variant>
#include <vector>

namespace sluice {

/// A kind of block: a layer's token mixer, or its MLP.
struct LayerBlock {
  std::variant<AttentionKind, MlpKind> kind;
  std::string_view name;     ///< name of the block in the JSON of `sluice inspect`
  std::string_view summary;  ///< name of the block in texts: "3 with full attention"
  std::vector<BlockTensor> (*tensors)(const ModelConfig& config);
  std::vector<Setting> (*settings)(const ModelConfig& config);
  BlockActivations (*activations)(const ModelConfig& config, const PassSize& pass);
  BlockCache (*cache)(const ModelConfig& config,
                      std::int64_t element_bytes) = nullptr;  ///< cache of the block; null if it has none

  [[nodiscard]] bool mixes_tokens() const { return std::holds_alternative<AttentionKind>(kind); }
  /// Number of the model's layers that have the block.
  [[nodiscard]] std::int64_t count_in(const ModelConfig& config) const;
};

/// All kinds of blocks.
[[nodiscard]] std::span<const LayerBlock> layer_blocks();
[[nodiscard]] const LayerBlock& block_of(AttentionKind kind);
[[nodiscard]] const LayerBlock& block_of(MlpKind kind);

/// Tensors of one layer in the order of the module tree: those of its token mixer, its MLP and its norms.
[[nodiscard]] std::vector<BlockTensor> layer_tensors(const ModelConfig& config, int layer);

/// Activations of the two halves of a layer; zeros for a half that it does not have.
struct LayerActivationSizes {
  BlockActivations mixer, mlp;
};
[[nodiscard]] LayerActivationSizes layer_activations(const ModelConfig& config, int layer,
                                                     const PassSize& pass);
/// Cache of one layer; zero for a layer without a token mixer.
[[nodiscard]] BlockCache layer_cache(const ModelConfig& config, int layer, std::int64_t element_bytes);

}  // namespace sluice
