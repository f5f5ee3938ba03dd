#include "train/shared_vocabulary.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/range.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace sluice {
namespace {

std::int64_t row_bytes(const at::Tensor& rows) { return rows.size(1) * rows.element_size(); }

/// The unit that has the head's rows.
int head_unit(const ShardPlan& plan, const StagePlan& stages) {
  const auto found = std::ranges::find_if(stages.head.units, [&](int unit) { return plan.is_by_rows(unit); });
  SLUICE_ASSERT(found != stages.head.units.end(), "the head is gathered, expected its rows on {} ranks",
                plan.world());
  return *found;
}

}  // namespace

SharedVocabulary::SharedVocabulary(Communicator& set, const ShardPlan& plan, const StagePlan& stages,
                                   PhaseTimer& timer)
    : set_(set), timer_(timer), gradients_(plan.dims().wire.gradients) {
  const int unit = head_unit(plan, stages);
  for (int rank = 0; rank < plan.world(); ++rank) rows_.push_back(plan.owned_rows(unit, rank));
}

std::int64_t SharedVocabulary::largest(std::int64_t number) {
  set_.all_reduce_max(std::span(&number, 1));
  return number;
}

std::vector<ops::TokenPiece> SharedVocabulary::pieces(std::int64_t tokens, std::int64_t at_once) {
  const PhaseTimer::Scope phase(timer_, Phase::kDispatch);
  const auto ranks = static_cast<std::size_t>(set_.size()), own = static_cast<std::size_t>(set_.rank());
  std::vector<std::int64_t> of_ranks(ranks, tokens);
  const std::vector<std::int64_t> bytes(ranks, sizeof(std::int64_t));
  set_.host().all_gather(&tokens, of_ranks.data(), bytes).wait();
  std::vector<ops::TokenPiece> pieces;
  for (std::int64_t begin = 0; begin < std::ranges::max(of_ranks); begin += at_once) {
    ops::TokenPiece& piece = pieces.emplace_back();
    for (const std::int64_t all : of_ranks)
      piece.counts.push_back(std::clamp<std::int64_t>(all - begin, 0, at_once));
    piece.own.begin = std::min(begin, tokens);
    piece.own.end = piece.own.begin + piece.counts[own];
  }
  return pieces;
}

at::Tensor SharedVocabulary::gather(const ops::TokenPiece& piece, const at::Tensor& own) {
  const PhaseTimer::Scope phase(timer_, Phase::kDispatch);
  fault_point("train.vocabulary", set_.rank());
  const at::Tensor rows = own.contiguous();
  at::Tensor all = at::empty({piece.all(), rows.size(1)}, rows.options());
  set_.all_gather(rows.data_ptr(), all.data_ptr(), times(piece.counts, row_bytes(rows))).wait();
  return all;
}

at::Tensor SharedVocabulary::of_ranks(const ops::TokenPiece& piece, const at::Tensor& found) {
  const PhaseTimer::Scope phase(timer_, Phase::kCombine);
  const at::Tensor rows = found.contiguous();
  at::Tensor parts = at::empty({set_.size(), piece.own.count(), rows.size(1)}, rows.options());
  const std::vector<std::int64_t> received(piece.counts.size(), piece.own.count() * row_bytes(rows));
  set_.all_to_all(rows.data_ptr(), times(piece.counts, row_bytes(rows)), parts.data_ptr(), received).wait();
  return parts;
}

at::Tensor SharedVocabulary::columns(const ops::TokenPiece& piece, const at::Tensor& own) {
  const PhaseTimer::Scope phase(timer_, Phase::kCombine);
  const at::Tensor rows = own.contiguous();
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> received;
  for (const Range& of_rank : rows_)
    received.push_back(piece.own.count() * of_rank.count() * rows.element_size());
  const at::Tensor arrived = at::empty({piece.own.count() * rows_.back().end}, rows.options());
  set_.all_to_all(rows.data_ptr(), times(piece.counts, row_bytes(rows)), arrived.data_ptr(), received).wait();
  std::int64_t begin = 0;
  for (const Range& of_rank : rows_) {
    const std::int64_t count = piece.own.count() * of_rank.count();
    parts.push_back(arrived.narrow(0, begin, count).view({piece.own.count(), of_rank.count()}));
    begin += count;
  }
  return at::cat(parts, 1);
}

at::Tensor SharedVocabulary::sum(const ops::TokenPiece& piece, const at::Tensor& parts) {
  const PhaseTimer::Scope phase(timer_, Phase::kCombine);
  at::Tensor own = at::empty({piece.own.count(), parts.size(1)}, parts.options());
  set_.reduce_scatter_sum(static_cast<const float*>(parts.data_ptr()), static_cast<float*>(own.data_ptr()),
                          times(piece.counts, parts.size(1)), nullptr, gradients_)
      .wait();
  return own;
}

}  // namespace sluice
