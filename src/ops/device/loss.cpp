#include "ops/loss.hpp"
#include "ops/device/processor.hpp"

#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <ATen/core/Tensor.h>

namespace sluice::ops::device {
namespace {

/// Columns of the targets [T] in a tile of logits over a part of the vocabulary.
struct Columns {
  at::Tensor is_here;  ///< Whether the tile holds the target, [T, 1].
  at::Tensor column;   ///< Column of the target, [T, 1]; any column if the tile does not hold the target.

  Columns(const at::Tensor& targets, std::int64_t first, std::int64_t width) {
    const at::Tensor place = (targets - first).unsqueeze(1);
    is_here = place.ge(0).logical_and(place.lt(width));
    column = place.clamp(0, width - 1);
  }
};

}  // namespace

void join_logits(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                 const LogitSums& sums) {
  const at::Tensor rows = logits.to(at::kFloat);
  const at::Tensor largest = at::maximum(sums.largest, rows.amax(1));
  const at::Tensor shrink = (sums.largest.to(at::kDouble) - largest).exp();
  sums.exponentials.mul_(shrink).add_((rows - largest.unsqueeze(1)).exp_().sum(1));
  sums.largest.copy_(largest);
  const Columns columns(targets, first, logits.size(1));
  sums.target.copy_(
      at::where(columns.is_here, rows.gather(1, columns.column), sums.target.unsqueeze(1)).squeeze(1));
}

void cross_entropies(const LogitSums& sums, const at::Tensor& targets, const at::Tensor& losses) {
  const at::Tensor all = sums.exponentials.log() + sums.largest - sums.target;
  losses.copy_(all.masked_fill(targets.eq(kNoTarget), 0));
}

void logits_to_gradient(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                        const LogitSums& sums, const at::Tensor& coefficients) {
  const at::Tensor factor =
      (sums.exponentials.reciprocal() * coefficients).masked_fill(targets.eq(kNoTarget), 0);
  at::Tensor grads =
      (logits.to(at::kFloat) - sums.largest.unsqueeze(1)).exp_().mul_(factor.to(at::kFloat).unsqueeze(1));
  const at::Tensor share = (sums.target.to(at::kDouble) - sums.largest).exp() / sums.exponentials;
  const at::Tensor of_target = ((share - 1) * coefficients).to(at::kFloat).unsqueeze(1);
  const Columns columns(targets, first, logits.size(1));
  grads.scatter_(1, columns.column, at::where(columns.is_here, of_target, grads.gather(1, columns.column)));
  logits.copy_(grads);
}

}  // namespace sluice::ops::device
