// Embedding and head that the ranks of a set have between them, each some rows: what passes between the ranks.
#pragma once

#include "comm/communicator.hpp"
#include "ops/vocabulary_exchange.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"
#include "train/phase_timer.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

class SharedVocabulary final : public ops::VocabularyExchange {
 public:
  /// `set`: the ranks of this rank's set, which have the head's rows as `plan` cuts them. `set` and `timer` must
  /// outlive the exchange.
  SharedVocabulary(Communicator& set, const ShardPlan& plan, const StagePlan& stages, PhaseTimer& timer);

  [[nodiscard]] const std::vector<Range>& rows_of_ranks() const override { return rows_; }
  [[nodiscard]] int rank() const override { return set_.rank(); }
  [[nodiscard]] std::int64_t largest(std::int64_t number) override;
  [[nodiscard]] std::vector<ops::TokenPiece> pieces(std::int64_t tokens, std::int64_t at_once) override;
  [[nodiscard]] at::Tensor gather(const ops::TokenPiece& piece, const at::Tensor& own) override;
  [[nodiscard]] at::Tensor of_ranks(const ops::TokenPiece& piece, const at::Tensor& found) override;
  [[nodiscard]] at::Tensor columns(const ops::TokenPiece& piece, const at::Tensor& own) override;
  [[nodiscard]] at::Tensor sum(const ops::TokenPiece& piece, const at::Tensor& parts) override;

 private:
  Communicator& set_;
  PhaseTimer& timer_;
  DType gradients_;  ///< type in which parts of gradients are sent
  std::vector<Range> rows_;
};

}  // namespace sluice
