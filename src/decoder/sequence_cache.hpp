// Cache of sequences that go on: keys and values of attention, states of linear attention.
#pragma once

#include "base/dtype.hpp"
#include "model/model_config.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace sluice {

/// Consecutive tokens of a sequence, in a pass over the newest tokens of some: rows follow one another in the
/// order of the parts. A sequence has one part of a pass at most.
struct SequencePart {
  std::int64_t slot = 0;    ///< slot of the sequence in the cache
  std::int64_t begin = 0;   ///< the position of the first; all before it are in the cache
  std::int64_t tokens = 0;  ///< new tokens of the sequence, at least 1

  [[nodiscard]] std::int64_t end() const { return begin + tokens; }
};

/// Cache of a layer with attention: [slots, positions, key heads, head_dim].
struct AttentionCache {
  at::Tensor keys, values;
};

/// Cache of a layer with latent attention.
struct LatentCache {
  at::Tensor
      /// [slots, positions, rank + rope]: what keys and values are made of, and the key that all heads share.
      rows;
};

/// Cache of a layer with a delta net.
struct DeltaNetCache {
  at::Tensor window;  ///< [slots, taps - 1, 2 keys + values]: the last inputs of the convolution
  at::Tensor state;   ///< [slots, value heads, key head size, value head size] float32
};

/// Allocated once, for `slots` sequences of at most `positions` tokens.
class SequenceCache {
 public:
  SequenceCache(const ModelConfig& config, std::int64_t slots, std::int64_t positions, DType dtype);

  /// A sequence begins anew in this slot.
  void clear(std::int64_t slot);

  /// Whether the last tokens of a sequence can be taken back: keys and values lie side by side, states have
  /// all tokens in one.
  [[nodiscard]] bool can_be_shortened() const;

  [[nodiscard]] AttentionCache& attention(int layer) {
    return std::get<AttentionCache>(layers_[static_cast<std::size_t>(layer)]);
  }
  [[nodiscard]] LatentCache& latent(int layer) {
    return std::get<LatentCache>(layers_[static_cast<std::size_t>(layer)]);
  }
  [[nodiscard]] DeltaNetCache& delta_net(int layer) {
    return std::get<DeltaNetCache>(layers_[static_cast<std::size_t>(layer)]);
  }
  [[nodiscard]] std::int64_t positions() const { return positions_; }
  /// Bytes of the cache, as the plan's cache_bytes() has them.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::int64_t positions_;
  std::vector<std::variant<AttentionCache, LatentCache, DeltaNetCache>> layers_;
};

/// Consecutive parts that have as many tokens each, so that they can be computed as one batch.
struct SequenceBatch {
  at::Tensor slots;         ///< [n] int64
  std::int64_t tokens = 0;  ///< tokens of each sequence
};
[[nodiscard]] std::vector<SequenceBatch> batches_of(std::span<const SequencePart> parts);

}  // namespace sluice
