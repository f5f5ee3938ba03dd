// Every block that a layer can be made of. A new one is described in a file of this folder, listed in
// layer_blocks.cpp, and computed in decoder/.
#pragma once

#include "model/blocks/block.hpp"

#include <span>
#include <variant>

namespace sluice {

/// A block that mixes a layer's tokens, or its MLP.
struct LayerBlock {
  std::variant<AttentionKind, MlpKind> kind;
  std::string_view name;     ///< kind of the layer in the JSON of `sluice inspect`
  std::string_view summary;  ///< kind of the layer for people: "3 with full attention"
  std::vector<BlockTensor> (*tensors)(const ModelConfig& config);
  std::vector<Setting> (*settings)(const ModelConfig& config);
  BlockActivations (*activations)(const ModelConfig& config, const PassSize& pass);
  BlockCache (*cache)(const ModelConfig& config,
                      std::int64_t element_bytes) = nullptr;  ///< null: remembers nothing

  [[nodiscard]] bool mixes_tokens() const { return std::holds_alternative<AttentionKind>(kind); }
  /// Layers of the model that have it.
  [[nodiscard]] std::int64_t count_in(const ModelConfig& config) const;
};

/// All blocks that a layer may be made of.
[[nodiscard]] std::span<const LayerBlock> layer_blocks();
[[nodiscard]] const LayerBlock& block_of(AttentionKind kind);
[[nodiscard]] const LayerBlock& block_of(MlpKind kind);

}  // namespace sluice
