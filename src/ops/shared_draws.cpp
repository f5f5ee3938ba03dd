#include "ops/shared_draws.hpp"

#include "base/compute_sizes.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sluice::ops {
namespace {

enum Part : std::int64_t { kFirst, kBetween, kLast, kParts };

static_assert(kLossTileRows % kDrawBlock == 0 && kLossTileRowsOnDevice % kDrawBlock == 0,
              "tiles of a head end at blocks that draws are made of");

std::int64_t first_block(const Range& rows) { return rows.begin / kDrawBlock; }
std::int64_t last_block(const Range& rows) { return (rows.end - 1) / kDrawBlock; }

/// Part of a rank's rows that a block is.
Part part_of(const Range& rows, std::int64_t block) {
  if (block == first_block(rows)) return kFirst;
  return block == last_block(rows) ? kLast : kBetween;
}

/// Calls `call(piece, id)` for the columns of a tile in each block, from id `first` on.
template <class Call>
void for_each_block(const at::Tensor& logits, std::int64_t first, Call call) {
  std::int64_t count = 0;
  for (std::int64_t begin = 0; begin < logits.size(1); begin += count) {
    const std::int64_t id = first + begin;
    count = std::min(kDrawBlock - id % kDrawBlock, logits.size(1) - begin);
    call(logits.narrow(1, begin, count), id);
  }
}

}  // namespace

SharedDraws::SharedDraws(const DrawnTokens& wanted, const at::Tensor& like, std::vector<Range> rows_of_ranks,
                         int rank)
    : temperature_(wanted.temperature),
      random_(wanted),
      rows_(std::move(rows_of_ranks)),
      rank_(rank),
      sums_(kParts, ExponentialSum(like)),
      ids_(at::full({like.size(0), wanted.count}, -1, like.options().dtype(at::kInt))) {}

void SharedDraws::take(const at::Tensor& logits, std::int64_t first) {
  for_each_block(logits, first, [&](const at::Tensor& rows, std::int64_t id) {
    sums_[static_cast<std::size_t>(part_of(own(), id / kDrawBlock))].add(scaled_logits(rows, temperature_));
  });
}

at::Tensor SharedDraws::numbers() const {
  return at::cat({sums_[kFirst].numbers(), sums_[kBetween].numbers(), sums_[kLast].numbers()}, 1);
}

void SharedDraws::set(const at::Tensor& of_ranks) {
  const at::Tensor pairs = of_ranks.view({of_ranks.size(0), of_ranks.size(1), kParts, 2});
  const at::Tensor largest = pairs.select(3, 0), all = largest.amax({0, 2});
  const at::Tensor sums = pairs.select(3, 1) * (largest - all.unsqueeze(1)).exp();  // [ranks, T, parts]
  shift_ = all.to(at::kFloat);
  first_ = block(first_block(own()), sums);
  last_ = block(last_block(own()), sums);
  before_ = first_.before;
}

/// Sum over all blocks before one, [T] float64, in the same order on every rank.
at::Tensor SharedDraws::sum_before(std::int64_t number, const at::Tensor& sums) const {
  at::Tensor before = at::zeros_like(sums[0].select(1, kFirst));
  for (int rank = 0; rank < static_cast<int>(rows_.size()); ++rank) {
    const Range& rows = rows_[static_cast<std::size_t>(rank)];
    if (rows.count() == 0) continue;
    if (first_block(rows) < number) before = before + sums[rank].select(1, kFirst);
    if (last_block(rows) <= number) before = before + sums[rank].select(1, kBetween);
    if (last_block(rows) < number) before = before + sums[rank].select(1, kLast);
  }
  return before;
}

SharedDraws::Block SharedDraws::block(std::int64_t number, const at::Tensor& sums) const {
  const at::Tensor before = sum_before(number, sums);
  Block found{.number = number, .before = before, .all = at::zeros_like(before)};
  for (int rank = 0; rank < static_cast<int>(rows_.size()); ++rank) {
    const Range& rows = rows_[static_cast<std::size_t>(rank)];
    if (rows.count() == 0 || first_block(rows) > number || last_block(rows) < number) continue;
    if (rank == rank_) found.begin = found.all;
    found.all = found.all + sums[rank].select(1, part_of(rows, number));
    if (rank == rank_) found.end = found.all;
    found.is_end = rank <= rank_;
  }
  return found;
}

void SharedDraws::draw(const at::Tensor& logits, std::int64_t first) {
  for_each_block(logits, first, [&](const at::Tensor& rows, std::int64_t id) {
    draw_block(scaled_logits(rows, temperature_), id);
  });
}

/// Replaces each draw as DrawsOfTokens does. Which rank's logits a draw falls among follows from the same sums on all
/// ranks, so that it is one rank's.
void SharedDraws::draw_block(const at::Tensor& rows, std::int64_t first) {
  const std::int64_t number = first / kDrawBlock;
  const at::Tensor cumulated = (rows - shift_.unsqueeze(1)).exp_().cumsum(1, at::kDouble);
  Block block{.number = number, .before = before_, .begin = at::zeros_like(before_)};
  block.end = block.all = cumulated.select(1, rows.size(1) - 1);
  if (number == first_.number)
    block = first_;
  else if (number == last_.number)
    block = last_;
  const at::Tensor random = random_.of_block(number), so_far = block.before + block.all;
  const at::Tensor place = random * so_far.unsqueeze(1);
  at::Tensor is_here =
      random.lt((block.all / so_far).unsqueeze(1)).logical_and_(place.ge(block.begin.unsqueeze(1)));
  if (!block.is_end) is_here.logical_and_(place.lt(block.end.unsqueeze(1)));
  const at::Tensor column =
      at::searchsorted(cumulated, place - block.begin.unsqueeze(1), /*out_int32=*/true, /*right=*/true)
          .clamp_max(rows.size(1) - 1);
  ids_ = at::where(is_here, column + static_cast<std::int32_t>(first), ids_);
  before_ = so_far;
}

}  // namespace sluice::ops
