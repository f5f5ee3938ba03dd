// Rotary position embedding: tables that every rank computes. Computed by decoder/rotary_frequencies.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::rotary {

inline constexpr std::string_view kFrequencies = "model.rotary_emb.inv_freq";
inline constexpr std::string_view kOriginalFrequencies = "model.rotary_emb.original_inv_freq";

/// Tensors of the block: computed buffers alone, of each kind of layer where two kinds rotate by their own.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);

}  // namespace sluice::blocks::rotary
