// The forward pass over sharded weights, stage by stage: the one walk that training, evaluation and
// generation share.
#pragma once

#include "decoder/decoder.hpp"
#include "train/stage_binder.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Output of a layer for the hidden states `x` of one micro-batch, of the same shape. Called while the
/// layer's units are bound.
using LayerFunction = std::function<at::Tensor(int layer, std::size_t micro_batch, const at::Tensor& x)>;

/// A pass of all micro-batches through the layers, with the parameters as `decoder` views them.
struct WalkedPass {
  const Decoder& decoder;
  LayerFunction compute;
};

/// The pass that keeps nothing but hidden states: no graph, no routing, no dropout. All references must outlive it.
template <class MicroBatches>
[[nodiscard]] WalkedPass inference_pass(const Decoder& decoder, const MicroBatches& micro_batches,
                                        ops::TokenExchange& exchange) {
  return {decoder, [&](int layer, std::size_t i, const at::Tensor& x) {
            const at::NoGradGuard no_grad;
            SavedForRecompute record;
            RoutingSums unwanted;
            return decoder.layer(layer, x, micro_batches[i].documents, record, unwanted, {}, exchange);
          }};
}

/// One forward pass of a rank's micro-batches through the model. Layers come first, micro-batches second: a
/// stage's units are gathered once, and every micro-batch goes through them. A rank with fewer micro-batches
/// than others still serves the tokens of other ranks with its experts.
class LayerWalk {
 public:
  /// Collective over the binder's communicator. `ids`: token ids of each micro-batch, int64, of any shape;
  /// empty for a rank that only serves others. `binder` and `decoder` must outlive the walk.
  LayerWalk(StageBinder& binder, const Decoder& decoder, std::vector<at::Tensor> ids);

  /// Collective over the binder's communicator. Runs embedding and layers: returns the hidden states [ids...,
  /// hidden] of each micro-batch, which the head takes.
  [[nodiscard]] std::vector<at::Tensor> forward(const LayerFunction& compute);
  /// The same for several passes, of each the hidden states: while a stage is bound, the micro-batches of one
  /// pass go through it after those of another. The embedding is the walk's own decoder's.
  [[nodiscard]] std::vector<std::vector<at::Tensor>> forward(std::span<const WalkedPass> passes);

  /// Collective over the binder's communicator. Gathers the head's units, which stay bound as long as the
  /// result lives. `next`, if not null, is the stage that a backward pass binds after the head.
  [[nodiscard]] StageBinder::GatheredStage head(const Stage* next = nullptr) const;

  /// Times that this rank takes part in the head: once for each of its micro-batches and, where ranks have the head
  /// between them, for each that another rank has beyond those.
  [[nodiscard]] std::size_t head_rounds() const { return head_rounds_; }

  /// Collective over the binder's communicator, in a layer's backward pass behind the last micro-batch of
  /// this rank: serves the tokens of ranks that have more micro-batches.
  void serve_backward(int layer) const;

  /// The exchange of the embedding's rows, if rows were exchanged; nothing if the table was gathered.
  [[nodiscard]] const std::optional<RowExchange>& embedding_rows() const { return embedding_rows_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> embed();

  StageBinder& binder_;
  const Decoder& decoder_;
  std::vector<at::Tensor> ids_;
  std::size_t rounds_;  ///< number of micro-batches on the rank that has the most
  std::size_t head_rounds_;
  std::optional<RowExchange> embedding_rows_;
};

}  // namespace sluice
