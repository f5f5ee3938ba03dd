#include "train/layer_walk.hpp"

#include "base/trace/recorder.hpp"

#include <utility>

namespace sluice {
namespace {

/// Tokens of each micro-batch.
std::vector<std::int64_t> token_counts(const std::vector<at::Tensor>& ids) {
  std::vector<std::int64_t> counts;
  for (const at::Tensor& of_micro_batch : ids) counts.push_back(of_micro_batch.numel());
  return counts;
}

}  // namespace

LayerWalk::LayerWalk(StageBinder& binder, const Decoder& decoder, std::vector<at::Tensor> ids)
    : binder_(binder),
      decoder_(decoder),
      ids_(std::move(ids)),
      rounds_(binder.exchange().begin(token_counts(ids_))),
      head_rounds_(ids_.size()) {
  if (SharedVocabulary* const vocabulary = binder.vocabulary())
    head_rounds_ = static_cast<std::size_t>(vocabulary->largest(std::ssize(ids_)));
  binder_.begin_pass(ArenaPass::kForward);
}

std::vector<at::Tensor> LayerWalk::embed() {
  {
    const PhaseTimer::Scope phase(binder_.timer(), Phase::kGather);
    embedding_rows_ = binder_.embedding_rows(ids_);
  }
  const bool is_by_rows = binder_.vocabulary() != nullptr;
  const StageBinder::GatheredStage bound(binder_, binder_.stages().embed, &binder_.stages().after(-1),
                                         embedding_rows_ && !is_by_rows ? &*embedding_rows_ : nullptr);
  const at::Tensor values = is_by_rows ? binder_.fetched(*embedding_rows_) : at::Tensor();
  const PhaseTimer::Scope phase(binder_.timer(), Phase::kForward);
  std::vector<at::Tensor> hidden;
  for (const at::Tensor& ids : ids_)
    hidden.push_back(is_by_rows ? decoder_.embed(ids, {embedding_rows_->rows(), values})
                                : decoder_.embed(ids));
  return hidden;
}

std::vector<at::Tensor> LayerWalk::forward(const LayerFunction& compute) {
  const WalkedPass only{decoder_, compute};
  return std::move(forward(std::span(&only, 1)).front());
}

std::vector<std::vector<at::Tensor>> LayerWalk::forward(std::span<const WalkedPass> passes) {
  std::vector<std::vector<at::Tensor>> hidden(passes.size(), embed());
  for (int layer = 0; layer < decoder_.config().layer_count(); ++layer) {
    const StageBinder::GatheredStage bound(binder_, binder_.stages().layers[static_cast<std::size_t>(layer)],
                                           &binder_.stages().after(layer));
    const trace::Span span(trace::Kind::kOperation, "layer", layer);
    const PhaseTimer::Scope phase(binder_.timer(), Phase::kForward);
    for (std::size_t pass = 0; pass < passes.size(); ++pass) {
      for (std::size_t i = 0; i < ids_.size(); ++i)
        hidden[pass][i] = passes[pass].compute(layer, i, hidden[pass][i]);
      for (std::size_t round = ids_.size(); round < rounds_; ++round)
        passes[pass].decoder.participate_without_tokens(layer, binder_.exchange());
    }
  }
  return hidden;
}

StageBinder::GatheredStage LayerWalk::head(const Stage* next) const {
  return {binder_, binder_.stages().head, next};
}

void LayerWalk::serve_backward(int layer) const {
  for (std::size_t round = ids_.size(); round < rounds_; ++round)
    decoder_.participate_without_tokens_backward(layer, binder_.exchange());
}

}  // namespace sluice
