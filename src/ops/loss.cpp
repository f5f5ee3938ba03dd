#include "ops/loss.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/adapters/lora_product.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::ops {
namespace {

std::int64_t tile_width(const at::Tensor& hidden) {
  return hidden.is_cpu() ? kLossTileRows : kLossTileRowsOnDevice;
}

bool fits(std::int64_t tokens, const at::Tensor& weight) {
  return tokens * weight.size(0) * weight.element_size() <= kKeptLogitBytes;
}

/// Initial sums, over no logits.
LogitSums empty_sums(const at::Tensor& hidden) {
  const std::int64_t tokens = hidden.size(0);
  const at::TensorOptions single = hidden.options().dtype(at::kFloat);
  return {at::full({tokens}, -HUGE_VAL, single), at::zeros({tokens}, single.dtype(at::kDouble)),
          at::zeros({tokens}, single)};
}

at::Tensor rows_from(const at::Tensor& weight, std::int64_t first, std::int64_t most) {
  return weight.narrow(0, first, std::min(most, weight.size(0) - first));
}

/// LoRA adapter of the head, for a group of tokens and a tile of the vocabulary at a time.
class LoraHead {
 public:
  LoraHead(const Lora& lora, const at::Tensor& hidden, DropoutDraw draw)
      : lora_(lora),
        draw_(draw),
        inputs_(with_dropout(hidden, draw)),
        reduced_(LoraProduct(lora).reduced(inputs_)) {}

  void add_to(const at::Tensor& logits, std::int64_t first) const {
    ops::matmul(logits, reduced_, lora_.b.value.narrow(0, first, logits.size(1)).t(), Into::kAdd);
  }

  /// Begins the gradients of all tiles, which finish_gradient() completes.
  void begin_gradient() {
    into_ = into_gradient(lora_.b);
    d_reduced_ = at::zeros(reduced_.sizes(), reduced_.options().dtype(at::kFloat));
  }
  void take(const at::Tensor& d_logits, std::int64_t first) {
    ops::matmul(d_reduced_, d_logits, lora_.b.value.narrow(0, first, d_logits.size(1)), Into::kAdd);
    if (lora_.b.grad.defined())
      ops::matmul(lora_.b.grad.narrow(0, first, d_logits.size(1)), d_logits.t(), reduced_, into_);
  }
  /// Adds the adapter's part to the gradient of the tokens, float32.
  void finish_gradient(const at::Tensor& d_hidden) const {
    const at::Tensor d_reduced = d_reduced_.mul(lora_.scale).to(inputs_.scalar_type());
    const Parameter& a = lora_.a;
    if (a.grad.defined()) ops::matmul(a.grad, d_reduced.t(), inputs_, into_gradient(a));
    const at::Tensor d_inputs = at::zeros_like(d_hidden);
    ops::matmul(d_inputs, d_reduced, a.value, Into::kAdd);
    d_hidden.add_(with_dropout(d_inputs, draw_));
  }

 private:
  const Lora& lora_;
  DropoutDraw draw_;
  at::Tensor inputs_, reduced_;
  at::Tensor d_reduced_{};
  Into into_ = Into::kAdd;
};

/// What is made beside the losses of a group of tokens, from the same tiles of logits.
class BesideGroup {
 public:
  BesideGroup(const BesideTargets& wanted, const at::Tensor& hidden, std::int64_t begin) {
    const std::int64_t count = hidden.size(0);
    if (const auto* const top = std::get_if<TopTokens>(&wanted)) top_.emplace(*top, hidden);
    if (const auto* const teacher = std::get_if<TeacherTokens>(&wanted)) {
      const TeacherTokens own = teacher->narrow(begin, count);
      teacher_.emplace(own, hidden);
      weight_ = own.is_taught().to(at::kDouble) * own.weight;
    }
    const auto* const drawn = std::get_if<DrawnTokens>(&wanted);
    if (drawn == nullptr) return;
    DrawnTokens own = *drawn;
    own.places = own.places.narrow(0, begin, count);
    draws_.emplace(own, hidden);
  }

  void take(const at::Tensor& logits, std::int64_t first) {
    if (top_) top_->take(logits, first);
    if (draws_) draws_->take(logits, first);
    if (teacher_) teacher_->take(logits, first);
  }

  /// Makes the losses [n] of targets those with the teacher, and tells both parts.
  [[nodiscard]] std::optional<TaughtLosses> join(const at::Tensor& losses) const {
    if (!teacher_) return std::nullopt;
    TaughtLosses parts{losses.clone(), teacher_->losses(), teacher_->entropies(), teacher_->is_taught()};
    losses.mul_(1 - weight_).add_(parts.teacher * weight_);
    return parts;
  }
  /// Coefficients [n] of the targets' losses among those of the losses that join() made.
  [[nodiscard]] at::Tensor of_targets(const at::Tensor& coefficients) const {
    return teacher_ ? coefficients * (1 - weight_) : coefficients;
  }
  /// Gradient of the teacher's part with respect to a tile of logits; undefined without a teacher.
  [[nodiscard]] at::Tensor gradient(const at::Tensor& logits, std::int64_t first,
                                    const at::Tensor& coefficients) const {
    return teacher_ ? teacher_->gradient(logits, first, coefficients * weight_) : at::Tensor();
  }
  [[nodiscard]] TokenDistribution distribution() const {
    if (top_) return top_->result();
    return draws_ ? draws_->result() : TokenDistribution{};
  }

 private:
  std::optional<TopOfTokens> top_{};
  std::optional<DrawsOfTokens> draws_{};
  std::optional<TeacherLoss> teacher_{};
  at::Tensor weight_{};  ///< share of the teacher in each token's loss, [n] float64
};

/// Cross-entropy of one group of tokens: hidden [n, H], targets [n].
class TokenGroup {
 public:
  /// `keep`: whether logits are kept from losses to gradient. `first_row`: number of the first token in its
  /// call.
  TokenGroup(at::Tensor hidden, const Weight& w, at::Tensor targets, const BesideTargets& beside, bool keep,
             std::int64_t first_row)
      : hidden_(std::move(hidden)),
        w_(w.base),
        targets_(std::move(targets)),
        sums_(empty_sums(hidden_)),
        width_(tile_width(hidden_)),
        keep_(keep),
        beside_(beside, hidden_, first_row) {
    if (!w.lora) return;
    DropoutDraw draw = dropout_draw(*w.lora);
    draw.first_row += first_row;
    lora_.emplace(*w.lora, hidden_, draw);
  }

  /// Returns the parts of the losses, with a teacher.
  std::optional<TaughtLosses> loss(const at::Tensor& losses) {
    for (std::int64_t first = 0; first < vocabulary(); first += width_) {
      const at::Tensor logits = tile(first);
      on::join_logits(logits, first, targets_, sums_);
      beside_.take(logits, first);
      if (keep_) kept_.push_back(logits);
    }
    on::cross_entropies(sums_, targets_, losses);
    return beside_.join(losses);
  }

  /// Computes the gradient of the sum of coefficients [n] * losses; called after loss(). Logits that were not
  /// kept are recomputed.
  void gradient(const at::Tensor& coefficients, const at::Tensor& d_hidden) {
    const Into into = into_gradient(w_);
    if (lora_) lora_->begin_gradient();
    const at::Tensor of_targets = beside_.of_targets(coefficients);
    const at::Tensor total = at::zeros(d_hidden.sizes(), d_hidden.options().dtype(at::kFloat));
    for (std::int64_t first = 0; first < vocabulary(); first += width_) {
      const at::Tensor logits = keep_ ? kept_[static_cast<std::size_t>(first / width_)] : tile(first);
      const at::Tensor of_teacher = beside_.gradient(logits, first, coefficients);
      on::logits_to_gradient(logits, first, targets_, sums_, of_targets);
      if (of_teacher.defined()) logits.add_(of_teacher);
      ops::matmul(total, logits, rows_from(w_.value, first, width_), Into::kAdd);
      if (w_.grad.defined()) ops::matmul(rows_from(w_.grad, first, width_), logits.t(), hidden_, into);
      if (lora_) lora_->take(logits, first);
    }
    if (lora_) lora_->finish_gradient(total);
    d_hidden.copy_(total);
  }

  [[nodiscard]] std::int64_t tokens() const { return hidden_.size(0); }
  [[nodiscard]] TokenDistribution distribution() const { return beside_.distribution(); }
  /// Whether no logit is above the target's, [n]; called after loss().
  [[nodiscard]] at::Tensor greedy() const {
    return sums_.target.ge(sums_.largest).logical_and(targets_.ne(kNoTarget));
  }

 private:
  [[nodiscard]] std::int64_t vocabulary() const { return w_.value.size(0); }
  /// Logits of a tile of the vocabulary, from id `first` on.
  [[nodiscard]] at::Tensor tile(std::int64_t first) const {
    at::Tensor logits = ops::matmul(hidden_, rows_from(w_.value, first, width_).t());
    if (lora_) lora_->add_to(logits, first);
    return logits;
  }

  at::Tensor hidden_;
  const Parameter& w_;
  at::Tensor targets_;
  LogitSums sums_;
  std::int64_t width_;
  bool keep_;
  BesideGroup beside_;
  std::optional<LoraHead> lora_{};
  std::vector<at::Tensor> kept_{};
};

/// Tensors of some groups of tokens, one behind the other.
class Joined {
 public:
  void add(const at::Tensor& part) {
    if (part.defined()) parts_.push_back(part);
  }
  /// All rows; undefined if there are none.
  [[nodiscard]] at::Tensor all() const { return parts_.empty() ? at::Tensor() : at::cat(parts_); }

 private:
  std::vector<at::Tensor> parts_{};
};

/// What was made beside the losses, of one group after the other.
class JoinedBeside {
 public:
  void add(const TokenDistribution& found, const std::optional<TaughtLosses>& taught) {
    ids_.add(found.ids);
    values_.add(found.values);
    rest_.add(found.rest);
    if (!taught) return;
    own_.add(taught->own);
    teacher_.add(taught->teacher);
    entropies_.add(taught->entropies);
    is_taught_.add(taught->is_taught);
  }
  void give(CrossEntropy& result) const {
    result.distribution = {ids_.all(), values_.all(), rest_.all()};
    if (const at::Tensor own = own_.all(); own.defined())
      result.taught = {own, teacher_.all(), entropies_.all(), is_taught_.all()};
  }

 private:
  Joined ids_{}, values_{}, rest_{}, own_{}, teacher_{}, entropies_{}, is_taught_{};
};

void check_targets(const at::Tensor& targets, std::int64_t vocabulary) {
  if (const auto bad = on::first_outside(targets, vocabulary, kNoTarget))
    fail(ExitCode::kBadData, "target token {} of the batch has id {}, but the model's vocabulary ends at {}",
         bad->place, bad->id, vocabulary - 1);
}

}  // namespace

CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Weight& w, const at::Tensor& targets,
                                  const LossCoefficients& coefficients, const BesideTargets& beside) {
  const trace::Span span(trace::Kind::kOperation, "loss");
  const at::NoGradGuard no_grad;
  const at::Tensor ids = targets.contiguous();
  check_targets(ids, w.base.value.size(0));
  const at::Tensor rows = hidden.contiguous();
  const at::TensorOptions options = rows.options().dtype(at::kDouble);
  CrossEntropy result{at::empty({rows.size(0)}, options), {}, {}};
  const bool want_grad = !std::holds_alternative<NoLossGradient>(coefficients);
  if (want_grad)
    result.d_hidden = at::empty_like(rows);
  else
    result.greedy = at::empty({rows.size(0)}, options.dtype(at::kBool));
  const auto* const of_losses = std::get_if<CoefficientsOfLosses>(&coefficients);
  // Groups are larger where no logits are kept, because the weight and its gradient pass through memory once
  // per group.
  const std::int64_t tokens = fits(kKeptLogitTokens, w.base.value) ? kKeptLogitTokens : kLossTokens;
  std::vector<TokenGroup> waiting;
  JoinedBeside joined;
  for (std::int64_t begin = 0; begin < rows.size(0); begin += tokens) {
    const std::int64_t count = std::min(tokens, rows.size(0) - begin);
    const bool keep = want_grad && fits(of_losses != nullptr ? rows.size(0) : count, w.base.value);
    TokenGroup group(rows.narrow(0, begin, count), w, ids.narrow(0, begin, count), beside, keep, begin);
    const std::optional<TaughtLosses> taught = group.loss(result.losses.narrow(0, begin, count));
    joined.add(group.distribution(), taught);
    if (!want_grad) result.greedy.narrow(0, begin, count).copy_(group.greedy());
    if (const auto* const same = std::get_if<double>(&coefficients))
      group.gradient(at::full({count}, *same, options), result.d_hidden.narrow(0, begin, count));
    if (of_losses != nullptr) waiting.push_back(std::move(group));
  }
  joined.give(result);
  if (of_losses == nullptr) return result;
  const at::Tensor of_tokens = (*of_losses)(result.losses);
  for (std::int64_t begin = 0; TokenGroup & group : waiting) {
    const std::int64_t count = group.tokens();
    group.gradient(of_tokens.narrow(0, begin, count), result.d_hidden.narrow(0, begin, count));
    begin += count;
  }
  return result;
}

at::Tensor logits(const at::Tensor& hidden, const Weight& w) {
  const trace::Span span(trace::Kind::kOperation, "logits");
  const at::NoGradGuard no_grad;
  const at::Tensor rows = hidden.contiguous();
  at::Tensor out = ops::matmul(rows, w.base.value.t());
  if (w.lora) LoraProduct(*w.lora).add_to(out, rows);
  return out.to(at::kFloat);
}

}  // namespace sluice::ops
