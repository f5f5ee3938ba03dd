// The forward pass over sharded weights, stage by stage: the one walk that training, evaluation and
// generation share.
#pragma once

#include "decoder/decoder.hpp"
#include "train/stage_binder.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace sluice {

/// What a layer makes of the hidden states `x` of one micro-batch, of the same shape. Called while the
/// layer's units are bound.
using LayerFunction = std::function<at::Tensor(int layer, std::size_t micro_batch, const at::Tensor& x)>;

/// One walk of a rank's micro-batches through the model. Layers come first, micro-batches second: a stage's
/// units are gathered once, and every micro-batch goes through them. A rank with fewer micro-batches than
/// others takes part in what their tokens need of its experts.
class LayerWalk {
 public:
  /// Collective over the binder's communicator. `ids` (int64, of any shape) are the tokens of each
  /// micro-batch; none for a rank that only takes part. `binder` and `decoder` must outlive the walk.
  LayerWalk(StageBinder& binder, const Decoder& decoder, std::vector<at::Tensor> ids);

  /// Collective over the binder's communicator. Embedding and layers: returns the hidden states [ids...,
  /// hidden] of each micro-batch, as they go into the head.
  [[nodiscard]] std::vector<at::Tensor> forward(const LayerFunction& compute);

  /// Collective over the binder's communicator. The head's units, bound as long as the result lives. `next`,
  /// if it is not null, is the stage that a backward pass binds after it.
  [[nodiscard]] StageBinder::GatheredStage head(const Stage* next = nullptr) const;

  /// Collective over the binder's communicator, in a layer's backward pass behind that of the last
  /// micro-batch of this rank: serves the tokens of ranks that have more micro-batches.
  void serve_backward(int layer) const;

  /// The rows of the embedding that travelled; nothing if all of the table did.
  [[nodiscard]] const std::optional<RowExchange>& embedding_rows() const { return embedding_rows_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> embed();

  StageBinder& binder_;
  const Decoder& decoder_;
  std::vector<at::Tensor> ids_;
  std::size_t rounds_;  ///< micro-batches of the rank that has most of them
  std::optional<RowExchange> embedding_rows_;
};

}  // namespace sluice
