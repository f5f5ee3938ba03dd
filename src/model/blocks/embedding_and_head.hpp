// Embedding and head, which have a row per token of the vocabulary, tied or not. Computed by ops/embedding
// and ops/loss.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::embedding_and_head {

inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kHead = "lm_head.weight";

/// Tensor of the token embedding, [vocabulary, hidden].
[[nodiscard]] BlockTensor embedding_tensor(const ModelConfig& config);
[[nodiscard]] BlockTensor head_tensor(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);

/// Bytes that the embedding takes in a step: rows for this rank's own tokens, and rows on this rank that are
/// sent for the tokens of all ranks.
[[nodiscard]] std::int64_t embedding_bytes(const ModelConfig& config, std::int64_t own_tokens,
                                           std::int64_t all_tokens, std::int64_t element_bytes);
/// Activations of the head and the loss, forward and backward, for the tokens of one micro-batch.
[[nodiscard]] BlockActivations head_activations(const ModelConfig& config);
/// Additional bytes of the head for `tokens` tokens of each distribution, which are found, drawn or learnt.
[[nodiscard]] std::int64_t distribution_bytes(std::int64_t tokens, bool on_device);
/// Additional bytes of head and loss on a device, whose tiles of logits and gradients are wider.
[[nodiscard]] std::int64_t device_tile_bytes();

}  // namespace sluice::blocks::embedding_and_head
