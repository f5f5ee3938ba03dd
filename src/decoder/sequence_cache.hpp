// Cache of sequences that are continued: keys and values of attention, states of linear attention.
#pragma once

#include "base/dtype.hpp"
#include "model/model_config.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace sluice {

/// Consecutive new tokens of one sequence in a pass over the newest tokens of some sequences: rows of the
/// pass follow one another in the order of the parts. A pass has at most one part of a sequence.
struct SequencePart {
  std::int64_t slot = 0;    ///< slot of the sequence in the cache
  std::int64_t begin = 0;   ///< position of the first new token; all tokens before it are in the cache
  std::int64_t tokens = 0;  ///< new tokens of the sequence, at least 1

  [[nodiscard]] std::int64_t end() const { return begin + tokens; }
};

/// Cache of a layer with attention: keys and values [slots, positions, key heads, size of such a head].
struct AttentionCache {
  at::Tensor keys, values;
};

/// Cache of a layer with latent attention.
struct LatentCache {
  at::Tensor
      /// [slots, positions, rank + rope]: the latent vector of each token, and the rotary part of the key
      /// that all heads share.
      rows;
};

/// Cache of a layer with a delta net, Kimi delta attention or Mamba-2.
struct DeltaNetCache {
  at::Tensor window;  ///< last inputs of the convolution [slots, taps - 1, channels]
  /// State, float32: of delta rules [slots, value heads, key head size, value head size], of Mamba-2 as
  /// ops::continue_mamba2_scan() has it.
  at::Tensor state;
};

/// Cache of a layer with a short convolution.
struct ShortConvCache {
  at::Tensor window;  ///< last inputs of the convolution [slots, taps - 1, hidden]
};

/// Cache of a layer without a token mixer.
using NoCache = std::monostate;

/// Cache of all layers, allocated once, for `slots` sequences of at most `positions` tokens.
class SequenceCache {
 public:
  /// `dtype` of keys, values and windows; all tensors lie on `device`.
  SequenceCache(const ModelConfig& config, std::int64_t slots, std::int64_t positions, DType dtype,
                at::Device device);

  /// Clears a slot, in which a new sequence begins.
  void clear(std::int64_t slot);

  /// Whether the last tokens of a sequence can be dropped: keys and values can, as each token has its own; a
  /// state cannot, as it merges all tokens, nor can a window, which has lost the inputs before.
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
  [[nodiscard]] ShortConvCache& short_conv(int layer) {
    return std::get<ShortConvCache>(layers_[static_cast<std::size_t>(layer)]);
  }
  [[nodiscard]] std::int64_t positions() const { return positions_; }
  /// Bytes of the cache, equal to the plan's cache_bytes().
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::int64_t positions_;
  std::vector<std::variant<NoCache, AttentionCache, LatentCache, DeltaNetCache, ShortConvCache>> layers_;
};

/// Consecutive parts with the same number of tokens, which are computed as one batch.
struct SequenceBatch {
  at::Tensor slots;         ///< slots of the sequences, [n] int64
  std::int64_t tokens = 0;  ///< tokens of each sequence
};
/// On `device`.
[[nodiscard]] std::vector<SequenceBatch> batches_of(std::span<const SequencePart> parts, at::Device device);

/// Results [T, width] for the newest tokens x [T, hidden] of some sequences: compute(tokens [n, L, hidden], slots
/// [n]) returns those of a batch of them, [n * L, width].
template <class Compute>
[[nodiscard]] at::Tensor compute_in_batches(const at::Tensor& x, std::span<const SequencePart> parts,
                                            const Compute& compute) {
  std::vector<at::Tensor> outs;
  std::int64_t row = 0;
  for (const SequenceBatch& batch : batches_of(parts, x.device())) {
    const std::int64_t sequences = batch.slots.size(0), rows = sequences * batch.tokens;
    outs.push_back(compute(x.narrow(0, row, rows).view({sequences, batch.tokens, x.size(1)}), batch.slots));
    row += rows;
  }
  return outs.size() == 1 ? outs.front() : at::cat(outs);
}

/// compute_in_batches() for a layer that carries a state on: compute(tokens [n, L, hidden], window, state) gets those
/// of the batch's slots, and replaces them by the ones behind these tokens.
template <class Compute>
[[nodiscard]] at::Tensor carry_in_batches(const at::Tensor& x, std::span<const SequencePart> parts,
                                          DeltaNetCache& cache, const Compute& compute) {
  return compute_in_batches(x, parts, [&](const at::Tensor& tokens, const at::Tensor& slots) {
    at::Tensor window = cache.window.index_select(0, slots), state = cache.state.index_select(0, slots);
    at::Tensor out = compute(tokens, window, state);
    cache.window.index_copy_(0, slots, window);
    cache.state.index_copy_(0, slots, state);
    return out;
  });
}

}  // namespace sluice
