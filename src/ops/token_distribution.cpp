#include "ops/token_distribution.hpp"

#include "base/random.hpp"
#include "ops/buffers/host_values.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace sluice::ops {
namespace {

at::TensorOptions of_type(const at::Tensor& like, at::ScalarType dtype) {
  return like.options().dtype(dtype);
}

}  // namespace

at::Tensor scaled_logits(const at::Tensor& logits, double temperature) {
  const at::Tensor rows = logits.to(at::kFloat);
  return temperature == 1 ? rows : rows / temperature;
}

at::Tensor TeacherTokens::is_taught() const { return (weights.sum(1) + rest).gt(0); }

ExponentialSum::ExponentialSum(const at::Tensor& like)
    : largest_(at::full({like.size(0)}, -HUGE_VAL, of_type(like, at::kFloat))),
      shift_(at::zeros({like.size(0)}, of_type(like, at::kFloat))),
      exponentials_(at::zeros({like.size(0)}, of_type(like, at::kDouble))) {}

void ExponentialSum::add(const at::Tensor& rows) {
  const at::Tensor largest = at::maximum(largest_, rows.amax(1));
  // A token of which nothing but -infinity was added has no largest number that could be subtracted.
  shift_ = largest.masked_fill(largest.isinf(), 0);
  exponentials_ = exponentials_ * (largest_.to(at::kDouble) - shift_).exp() +
                  (rows - shift_.unsqueeze(1)).exp_().sum(1, false, at::kDouble);
  largest_ = largest;
}

at::Tensor ExponentialSum::log() const { return exponentials_.log() + shift_; }

at::Tensor ExponentialSum::numbers() const { return at::stack({largest_.to(at::kDouble), exponentials_}, 1); }

void ExponentialSum::set(const at::Tensor& numbers) {
  largest_ = numbers.select(1, 0).to(at::kFloat);
  shift_ = largest_.masked_fill(largest_.isinf(), 0);
  exponentials_ = numbers.select(1, 1);
}

at::Tensor ExponentialSum::joined(const at::Tensor& parts) {
  const at::Tensor largest = parts.select(2, 0), all = largest.amax(0);
  const at::Tensor shift = all.masked_fill(all.isinf(), 0);
  return at::stack({all, (parts.select(2, 1) * (largest - shift).exp_()).sum(0)}, 1);
}

TopOfTokens::TopOfTokens(const TopTokens& wanted, const at::Tensor& like)
    : wanted_(wanted),
      logits_(at::full({like.size(0), wanted.count}, -HUGE_VAL, of_type(like, at::kFloat))),
      ids_(at::full({like.size(0), wanted.count}, -1, of_type(like, at::kLong))),
      rest_(like) {}

void TopOfTokens::take(const at::Tensor& logits, std::int64_t first) {
  at::Tensor candidates = at::cat({logits_, scaled_logits(logits, wanted_.temperature)}, 1);
  const auto [largest, columns] = at::topk(candidates, wanted_.count, 1);
  ids_ = at::where(columns.lt(wanted_.count), ids_.gather(1, columns.clamp_max(wanted_.count - 1)),
                   columns + (first - wanted_.count));
  logits_ = largest;
  rest_.add(candidates.scatter_(1, columns, -HUGE_VAL));
}

TokenDistribution TopOfTokens::result() const {
  const at::Tensor logits = logits_.to(at::kDouble), rest = rest_.log();
  const at::Tensor all = at::logaddexp(rest, logits.logsumexp(1));
  return {ids_.to(at::kInt), (logits - all.unsqueeze(1)).masked_fill(ids_.lt(0), 0).to(at::kFloat),
          (rest - all).to(at::kFloat)};
}

at::Tensor TopOfTokens::numbers() const {
  return at::cat({logits_.to(at::kDouble), ids_.to(at::kDouble), rest_.numbers()}, 1);
}

void TopOfTokens::join(const at::Tensor& parts) {
  const std::int64_t count = wanted_.count;
  const auto of_each = [&](std::int64_t first) {
    return parts.narrow(2, first, count).transpose(0, 1).reshape({parts.size(1), parts.size(0) * count});
  };
  at::Tensor candidates = of_each(0).to(at::kFloat);
  const auto [largest, columns] = at::topk(candidates, count, 1);
  logits_ = largest;
  ids_ = of_each(count).to(at::kLong).gather(1, columns);
  rest_.set(ExponentialSum::joined(parts.narrow(2, 2 * count, 2)));
  rest_.add(candidates.scatter_(1, columns, -HUGE_VAL));
}

namespace {

/// Most draws of a token.
constexpr std::uint64_t kMostDraws = 256;

/// A number in [0, 1) with 53 bits.
double unit_number(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

DrawNumbers::DrawNumbers(const DrawnTokens& wanted)
    : key_(RandomStream(wanted.seed, "score").key()), count_(wanted.count), places_(wanted.places) {}

at::Tensor DrawNumbers::of_block(std::int64_t block) const {
  const std::vector<std::int64_t> places = host_values<std::int64_t>(places_);
  std::vector<double> numbers;
  numbers.reserve(places.size() * static_cast<std::size_t>(count_));
  for (const std::int64_t place : places) {
    const std::uint64_t key = random_bits(key_, static_cast<std::uint64_t>(place));
    for (std::uint64_t draw = 0; draw < static_cast<std::uint64_t>(count_); ++draw)
      numbers.push_back(unit_number(random_bits(key, static_cast<std::uint64_t>(block) * kMostDraws + draw)));
  }
  return tensor_of<double>(numbers, places_.device()).view({places_.size(0), count_});
}

DrawsOfTokens::DrawsOfTokens(const DrawnTokens& wanted, const at::Tensor& like)
    : temperature_(wanted.temperature),
      random_(wanted),
      ids_(at::full({like.size(0), wanted.count}, -1, of_type(like, at::kLong))),
      largest_(at::full({like.size(0)}, -HUGE_VAL, of_type(like, at::kFloat))),
      exponentials_(at::zeros({like.size(0)}, of_type(like, at::kDouble))) {}

void DrawsOfTokens::take(const at::Tensor& logits, std::int64_t first) {
  for (std::int64_t begin = 0; begin < logits.size(1); begin += kDrawBlock)
    take_block(
        scaled_logits(logits.narrow(1, begin, std::min(kDrawBlock, logits.size(1) - begin)), temperature_),
        first + begin);
}

/// Replaces each draw by one from the block with the probability of the block among all so far, so that every
/// draw is one from all of them.
void DrawsOfTokens::take_block(const at::Tensor& rows, std::int64_t first) {
  const at::Tensor of_block = rows.amax(1);
  const at::Tensor cumulated = (rows - of_block.unsqueeze(1)).exp_().cumsum(1, at::kDouble);
  const at::Tensor sum = cumulated.select(1, rows.size(1) - 1);
  const at::Tensor largest = at::maximum(largest_, of_block);
  const at::Tensor added = sum * (of_block.to(at::kDouble) - largest).exp();
  exponentials_ = exponentials_ * (largest_.to(at::kDouble) - largest).exp() + added;
  largest_ = largest;
  const at::Tensor share = (added / exponentials_).unsqueeze(1);
  const at::Tensor number = random_.of_block(first / kDrawBlock);
  const at::Tensor column =
      at::searchsorted(cumulated, number / share * sum.unsqueeze(1), /*out_int32=*/false, /*right=*/true)
          .clamp_max(rows.size(1) - 1);
  ids_ = at::where(number.lt(share), column + first, ids_);
}

TokenDistribution counted_draws(const at::Tensor& of_draws) {
  std::vector<std::int64_t> drawn = host_values<std::int64_t>(of_draws.to(at::kLong));
  std::vector<std::int32_t> ids(drawn.size(), -1);
  std::vector<float> counts(drawn.size(), 0);
  const auto count = static_cast<std::size_t>(of_draws.size(1));
  for (std::size_t begin = 0; begin < drawn.size(); begin += count) {
    const std::span<std::int64_t> draws = std::span(drawn).subspan(begin, count);
    std::ranges::sort(draws);
    std::size_t place = begin;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0 && draws[i] != draws[i - 1]) ++place;
      ids[place] = static_cast<std::int32_t>(draws[i]);
      ++counts[place];
    }
  }
  return {tensor_of<std::int32_t>(ids, of_draws.device()).view_as(of_draws),
          tensor_of<float>(counts, of_draws.device()).view_as(of_draws),
          {}};
}

/// Columns of the teacher's tokens in a tile that has one more column, for tokens that lie elsewhere.
struct TeacherLoss::Columns {
  at::Tensor is_here;  ///< whether the tile holds the token, [T, k]
  at::Tensor column;   ///< column of the token, [T, k]

  Columns(const at::Tensor& ids, std::int64_t first, std::int64_t width)
      : is_here(ids.ge(first).logical_and(ids.lt(first + width))),
        column((ids - first).masked_fill(is_here.logical_not(), width)) {}
};

TeacherLoss::TeacherLoss(const TeacherTokens& teacher, const at::Tensor& like)
    : teacher_{teacher.ids.to(at::kLong), teacher.weights.to(at::kDouble), teacher.rest.to(at::kDouble),
               teacher.temperature, teacher.weight},
      total_(teacher_.weights.sum(1) + teacher_.rest),
      logits_(at::full(teacher.ids.sizes(), -HUGE_VAL, of_type(like, at::kDouble))),
      others_(like) {}

/// Scaled logits of a tile, with a column more, in which those of the teacher's tokens are -infinity.
at::Tensor TeacherLoss::others(const at::Tensor& logits, const Columns& columns) const {
  at::Tensor rows = at::empty({logits.size(0), logits.size(1) + 1}, of_type(logits, at::kFloat));
  rows.narrow(1, 0, logits.size(1)).copy_(logits);
  if (teacher_.temperature != 1) rows.div_(teacher_.temperature);
  rows.select(1, logits.size(1)).fill_(-HUGE_VAL);
  return rows.scatter_(1, columns.column, -HUGE_VAL);
}

void TeacherLoss::take(const at::Tensor& logits, std::int64_t first) {
  const Columns columns(teacher_.ids, first, logits.size(1));
  const at::Tensor there =
      scaled_logits(logits.gather(1, columns.column.clamp_max(logits.size(1) - 1)), teacher_.temperature);
  logits_ = at::where(columns.is_here, there.to(at::kDouble), logits_);
  others_.add(others(logits, columns));
}

at::Tensor TeacherLoss::numbers() const { return at::cat({logits_, others_.numbers()}, 1); }

void TeacherLoss::set(const at::Tensor& numbers) {
  const std::int64_t tokens = numbers.size(1) - 2;
  logits_ = numbers.narrow(1, 0, tokens);
  others_.set(numbers.narrow(1, tokens, 2));
}

at::Tensor TeacherLoss::joined(const at::Tensor& parts) {
  const std::int64_t tokens = parts.size(2) - 2;
  return at::cat({parts.narrow(2, 0, tokens).amax(0), ExponentialSum::joined(parts.narrow(2, tokens, 2))}, 1);
}

at::Tensor TeacherLoss::log_sum() const { return at::logaddexp(others_.log(), logits_.logsumexp(1)); }

at::Tensor TeacherLoss::losses() const {
  // A weight of 0 takes nothing of a logarithm that is -infinity.
  const at::Tensor named = (teacher_.weights * logits_).masked_fill(teacher_.weights.eq(0), 0).sum(1);
  const at::Tensor rest = (teacher_.rest * others_.log()).masked_fill(teacher_.rest.eq(0), 0);
  return total_ * log_sum() - named - rest;
}

at::Tensor TeacherLoss::entropies() const {
  return -(at::xlogy(teacher_.weights, teacher_.weights).sum(1) + at::xlogy(teacher_.rest, teacher_.rest));
}

at::Tensor TeacherLoss::gradient(const at::Tensor& logits, std::int64_t first,
                                 const at::Tensor& coefficients) const {
  const Columns columns(teacher_.ids, first, logits.size(1));
  const at::Tensor scale = coefficients / teacher_.temperature, all = log_sum();
  const at::Tensor share = (others_.log() - all).exp();
  const at::Tensor factor = (scale * (share * total_ - teacher_.rest) / others_.exponentials())
                                .masked_fill(others_.exponentials().eq(0), 0)
                                .to(at::kFloat);
  at::Tensor grads =
      others(logits, columns).sub_(others_.shift().unsqueeze(1)).exp_().mul_(factor.unsqueeze(1));
  const at::Tensor named =
      scale.unsqueeze(1) * ((logits_ - all.unsqueeze(1)).exp() * total_.unsqueeze(1) - teacher_.weights);
  grads.scatter_(1, columns.column, named.to(at::kFloat));
  return grads.narrow(1, 0, logits.size(1));
}

}  // namespace sluice::ops
