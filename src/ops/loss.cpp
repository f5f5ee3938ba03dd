#include "ops/loss.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "base/trace/recorder.hpp"
#include "ops/adapters/lora_product.hpp"
#include "ops/matmul.hpp"
#include "ops/own_vocabulary.hpp"
#include "ops/runtime/processor.hpp"
#include "ops/shared_draws.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
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

/// Bounds logits l in place by c: c tanh(l / c), rounded after each step; c = 0 leaves them as they are.
void bound(at::Tensor& logits, float cap) {
  if (cap > 0) logits.div_(cap).tanh_().mul_(cap);
}

/// Derivative of bounded logits by what they were, float32 of their shape; undefined without a bound.
at::Tensor bound_slopes(const at::Tensor& bounded, float cap) {
  return cap > 0 ? 1 - (bounded.to(at::kFloat) / cap).square_() : at::Tensor();
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

/// Sums over logits of n tokens as numbers [n, 3] float64, and back.
at::Tensor packed(const LogitSums& sums) {
  return at::stack({sums.largest.to(at::kDouble), sums.exponentials, sums.target.to(at::kDouble)}, 1);
}
LogitSums unpacked(const at::Tensor& numbers) {
  return {numbers.select(1, 0).to(at::kFloat).contiguous(), numbers.select(1, 1).contiguous(),
          numbers.select(1, 2).to(at::kFloat).contiguous()};
}

/// Such numbers over all logits, from those over the logits of each rank, [ranks, n, 3].
at::Tensor joined(const at::Tensor& of_ranks) {
  return at::cat({ExponentialSum::joined(of_ranks.narrow(2, 0, 2)), of_ranks.narrow(2, 2, 1).sum(0)}, 1);
}

/// LoRA adapter of the head, for a group of tokens and a tile of the vocabulary at a time.
class LoraHead {
 public:
  /// `hidden`: this rank's tokens of the piece.
  LoraHead(const Lora& lora, const at::Tensor& hidden, DropoutDraw draw, VocabularyExchange& vocabulary,
           const TokenPiece& piece)
      : lora_(lora),
        draw_(draw),
        inputs_(with_dropout(hidden, draw)),
        reduced_(vocabulary.gather(piece, LoraProduct(lora).reduced(inputs_))) {}

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
  /// Adds the adapter's part to the gradient of this rank's tokens, float32.
  void finish_gradient(VocabularyExchange& vocabulary, const TokenPiece& piece,
                       const at::Tensor& d_hidden) const {
    const at::Tensor d_reduced = vocabulary.sum(piece, d_reduced_).mul(lora_.scale).to(inputs_.scalar_type());
    if (inputs_.size(0) == 0) return;
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
  /// `hidden`: the tokens of all ranks in the piece. `wanted` is asked for this rank's tokens of the call.
  BesideGroup(const BesideTargets& wanted, const at::Tensor& hidden, VocabularyExchange& vocabulary,
              const TokenPiece& piece) {
    if (const auto* const top = std::get_if<TopTokens>(&wanted)) top_.emplace(*top, hidden);
    if (const auto* const teacher = std::get_if<TeacherTokens>(&wanted)) {
      const TeacherTokens all =
          gathered(teacher->narrow(piece.own.begin, piece.own.count()), vocabulary, piece);
      teacher_.emplace(all, hidden);
      weight_ = all.is_taught().to(at::kDouble) * all.weight;
    }
    const auto* const drawn = std::get_if<DrawnTokens>(&wanted);
    if (drawn == nullptr) return;
    DrawnTokens asked = *drawn;
    const at::Tensor own = drawn->places.narrow(0, piece.own.begin, piece.own.count());
    asked.places = vocabulary.gather(piece, own.unsqueeze(1)).flatten();
    if (piece.counts.size() == 1)
      draws_.emplace(asked, hidden);
    else
      shared_draws_.emplace(asked, hidden, vocabulary.rows_of_ranks(), vocabulary.rank());
  }

  void take(const at::Tensor& logits, std::int64_t first) {
    if (top_) top_->take(logits, first);
    if (draws_) draws_->take(logits, first);
    if (shared_draws_) shared_draws_->take(logits, first);
    if (teacher_) teacher_->take(logits, first);
  }

  /// Makes what was found in this rank's logits what all ranks have found.
  void join_ranks(VocabularyExchange& vocabulary, const TokenPiece& piece) {
    if (top_) top_->join(vocabulary.of_ranks(piece, top_->numbers()));
    if (teacher_)
      teacher_->set(
          vocabulary.gather(piece, TeacherLoss::joined(vocabulary.of_ranks(piece, teacher_->numbers()))));
    if (!shared_draws_) return;
    const at::Tensor parts = vocabulary.of_ranks(piece, shared_draws_->numbers());
    const at::Tensor all = vocabulary.gather(piece, parts.transpose(0, 1).flatten(1));
    shared_draws_->set(all.view({all.size(0), parts.size(0), parts.size(2)}).transpose(0, 1));
  }

  /// Whether tiles must pass again once ranks have joined what they found.
  [[nodiscard]] bool draws_again() const { return shared_draws_.has_value(); }
  void draw(const at::Tensor& logits, std::int64_t first) { shared_draws_->draw(logits, first); }
  void join_draws(VocabularyExchange& vocabulary, const TokenPiece& piece) {
    drawn_ = counted_draws(vocabulary.of_ranks(piece, shared_draws_->ids()).amax(0));
  }

  /// Makes the losses [n] of targets of this rank's tokens those with the teacher, and tells both parts. `own`: place
  /// of these among all tokens.
  [[nodiscard]] std::optional<TaughtLosses> join(const at::Tensor& losses, Range own) const {
    if (!teacher_) return std::nullopt;
    const auto part = [&](const at::Tensor& of_all) { return of_all.narrow(0, own.begin, own.count()); };
    TaughtLosses parts{losses.clone(), part(teacher_->losses()), part(teacher_->entropies()),
                       part(teacher_->is_taught())};
    losses.mul_(1 - part(weight_)).add_(parts.teacher * part(weight_));
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
    return draws_ ? draws_->result() : drawn_;
  }

 private:
  static TeacherTokens gathered(TeacherTokens own, VocabularyExchange& vocabulary, const TokenPiece& piece) {
    own.ids = vocabulary.gather(piece, own.ids);
    own.weights = vocabulary.gather(piece, own.weights);
    own.rest = vocabulary.gather(piece, own.rest.unsqueeze(1)).flatten();
    return own;
  }

  std::optional<TopOfTokens> top_{};
  std::optional<DrawsOfTokens> draws_{};
  std::optional<SharedDraws> shared_draws_{};
  TokenDistribution drawn_{};  ///< draws of this rank's tokens, from the logits of several ranks
  std::optional<TeacherLoss> teacher_{};
  at::Tensor weight_{};  ///< share of the teacher in each token's loss, [n] float64
};

/// Cross-entropy of one group of tokens, whose logits this rank computes for its rows of the head: of all ranks'
/// tokens in a piece, hidden [N, H], targets [N].
class TokenGroup {
 public:
  /// `hidden` and `targets` are this rank's tokens of the call. `keep`: whether logits are kept from losses to
  /// gradient. `logit_cap`: bound of the logits, 0 for none.
  TokenGroup(VocabularyExchange& vocabulary, const TokenPiece& piece, const at::Tensor& hidden,
             const Weight& w, const at::Tensor& targets, const BesideTargets& beside, bool keep,
             float logit_cap)
      : vocabulary_(vocabulary),
        piece_(piece),
        hidden_(vocabulary.gather(piece, own(hidden))),
        w_(w.base),
        targets_(vocabulary.gather(piece, own(targets).unsqueeze(1)).flatten()),
        sums_(empty_sums(hidden_)),
        width_(tile_width(hidden_)),
        keep_(keep),
        logit_cap_(logit_cap),
        beside_(beside, hidden_, vocabulary, piece) {
    if (!w.lora) return;
    DropoutDraw draw = dropout_draw(*w.lora);
    draw.first_row += piece.own.begin;
    lora_.emplace(*w.lora, own(hidden), draw, vocabulary, piece);
  }

  /// Computes the losses [n] of this rank's tokens. Returns the parts of the losses, with a teacher.
  std::optional<TaughtLosses> loss(const at::Tensor& losses) {
    for (std::int64_t first = 0; first < rows(); first += width_) {
      const at::Tensor logits = tile(first, width_);
      on::join_logits(logits, id_of(first), targets_, sums_);
      beside_.take(logits, id_of(first));
      if (keep_) kept_.push_back(logits);
    }
    if (is_shared()) join_ranks();
    if (beside_.draws_again()) draw_again();
    const Range here = place_of_own();
    on::cross_entropies(narrowed(sums_, here), targets_.narrow(0, here.begin, here.count()), losses);
    return beside_.join(losses, here);
  }

  /// Computes the gradient of the sum of coefficients [n] * losses by this rank's tokens; called after loss(). Logits
  /// that were not kept are recomputed.
  void gradient(const at::Tensor& own_coefficients, const at::Tensor& d_hidden) {
    const at::Tensor coefficients = vocabulary_.gather(piece_, own_coefficients.unsqueeze(1)).flatten();
    const Into into = into_gradient(w_);
    if (lora_) lora_->begin_gradient();
    const at::Tensor of_targets = beside_.of_targets(coefficients);
    const at::Tensor total = at::zeros(hidden_.sizes(), hidden_.options().dtype(at::kFloat));
    for (std::int64_t first = 0; first < rows(); first += width_) {
      const at::Tensor logits = keep_ ? kept_[static_cast<std::size_t>(first / width_)] : tile(first, width_);
      const at::Tensor of_teacher = beside_.gradient(logits, id_of(first), coefficients);
      const at::Tensor slopes = bound_slopes(logits, logit_cap_);
      on::logits_to_gradient(logits, id_of(first), targets_, sums_, of_targets);
      if (of_teacher.defined()) logits.add_(of_teacher);
      if (slopes.defined()) logits.mul_(slopes);
      ops::matmul(total, logits, rows_from(w_.value, first, width_), Into::kAdd);
      if (w_.grad.defined()) ops::matmul(rows_from(w_.grad, first, width_), logits.t(), hidden_, into);
      if (lora_) lora_->take(logits, first);
    }
    const at::Tensor of_own = vocabulary_.sum(piece_, total);
    if (lora_) lora_->finish_gradient(vocabulary_, piece_, of_own);
    d_hidden.copy_(of_own);
  }

  [[nodiscard]] Range tokens() const { return piece_.own; }
  [[nodiscard]] TokenDistribution distribution() const { return beside_.distribution(); }
  /// Whether no logit is above the target's, [n]; called after loss().
  [[nodiscard]] at::Tensor greedy() const {
    const Range here = place_of_own();
    return sums_.target.ge(sums_.largest)
        .logical_and(targets_.ne(kNoTarget))
        .narrow(0, here.begin, here.count());
  }

 private:
  [[nodiscard]] bool is_shared() const { return piece_.counts.size() > 1; }
  /// This rank's part of rows of all its tokens in the call.
  [[nodiscard]] at::Tensor own(const at::Tensor& rows) const {
    return rows.narrow(0, piece_.own.begin, piece_.own.count());
  }
  /// Place of this rank's tokens among all ranks'.
  [[nodiscard]] Range place_of_own() const {
    const auto rank = static_cast<std::size_t>(vocabulary_.rank());
    const std::int64_t begin = sum(std::span<const std::int64_t>(piece_.counts).first(rank));
    return {begin, begin + piece_.counts[rank]};
  }
  static LogitSums narrowed(const LogitSums& sums, Range tokens) {
    const auto part = [&](const at::Tensor& of_all) {
      return of_all.narrow(0, tokens.begin, tokens.count());
    };
    return {part(sums.largest), part(sums.exponentials), part(sums.target)};
  }
  /// Makes the sums over this rank's logits sums over all ranks' logits, for the tokens of all.
  void join_ranks() {
    sums_ = unpacked(vocabulary_.gather(piece_, joined(vocabulary_.of_ranks(piece_, packed(sums_)))));
    beside_.join_ranks(vocabulary_, piece_);
  }
  /// Draws tokens from tiles that end at multiples of their width, and makes of it the draws of this rank's tokens.
  void draw_again() {
    std::int64_t width = 0;
    for (std::int64_t first = 0; first < rows(); first += width) {
      width = width_ - id_of(first) % width_;
      beside_.draw(tile(first, width), id_of(first));
    }
    beside_.join_draws(vocabulary_, piece_);
  }
  /// Rows of the head on this rank, and the token id of one of them.
  [[nodiscard]] std::int64_t rows() const { return w_.value.size(0); }
  [[nodiscard]] std::int64_t id_of(std::int64_t row) const { return vocabulary_.own_rows().begin + row; }
  /// Logits of a tile of at most `most` of this rank's rows, from row `first` on.
  [[nodiscard]] at::Tensor tile(std::int64_t first, std::int64_t most) const {
    at::Tensor logits = ops::matmul(hidden_, rows_from(w_.value, first, most).t());
    if (lora_) lora_->add_to(logits, first);
    bound(logits, logit_cap_);
    return logits;
  }

  VocabularyExchange& vocabulary_;
  TokenPiece piece_;
  at::Tensor hidden_;
  const Parameter& w_;
  at::Tensor targets_;
  LogitSums sums_;
  std::int64_t width_;
  bool keep_;
  float logit_cap_;
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

/// Tokens of a rank whose logits are computed at once. Groups are larger where no logits are kept, because the weight
/// and its gradient pass through memory once per group; ranks that share the head have as many between them.
std::int64_t tokens_at_once(const VocabularyExchange& vocabulary, const at::Tensor& weight) {
  const std::int64_t ranks = std::ssize(vocabulary.rows_of_ranks());
  if (ranks > 1) return divide_up(kLossTokens, ranks);
  return fits(kKeptLogitTokens, weight) ? kKeptLogitTokens : kLossTokens;
}

/// `wanted` with as many of a teacher's tokens at each target as the rank has that has most.
BesideTargets with_equal_widths(const BesideTargets& wanted, VocabularyExchange& vocabulary) {
  const auto* const teacher = std::get_if<TeacherTokens>(&wanted);
  if (teacher == nullptr) return wanted;
  const std::int64_t missing = vocabulary.largest(teacher->ids.size(1)) - teacher->ids.size(1);
  if (missing == 0) return wanted;
  TeacherTokens wide = *teacher;
  wide.ids = at::constant_pad_nd(teacher->ids, {0, missing}, -1);
  wide.weights = at::constant_pad_nd(teacher->weights, {0, missing}, 0);
  return wide;
}

void check_targets(const at::Tensor& targets, std::int64_t vocabulary) {
  if (const auto bad = on::first_outside(targets, vocabulary, kNoTarget))
    fail(ExitCode::kBadData, "target token {} of the batch has id {}, but the model's vocabulary ends at {}",
         bad->place, bad->id, vocabulary - 1);
}

}  // namespace

CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Weight& w, const at::Tensor& targets,
                                  const LossCoefficients& coefficients, const BesideTargets& wanted,
                                  VocabularyExchange* shared, float logit_cap) {
  const trace::Span span(trace::Kind::kOperation, "loss");
  const at::NoGradGuard no_grad;
  OwnVocabulary own(w.base.value.size(0));
  VocabularyExchange& vocabulary = shared == nullptr ? own : *shared;
  const at::Tensor ids = targets.contiguous();
  check_targets(ids, vocabulary.vocabulary());
  const at::Tensor rows = hidden.contiguous();
  const at::TensorOptions options = rows.options().dtype(at::kDouble);
  CrossEntropy result{at::empty({rows.size(0)}, options), {}, {}};
  const bool want_grad = !std::holds_alternative<NoLossGradient>(coefficients);
  if (want_grad)
    result.d_hidden = at::empty_like(rows);
  else
    result.greedy = at::empty({rows.size(0)}, options.dtype(at::kBool));
  const auto* const of_losses = std::get_if<CoefficientsOfLosses>(&coefficients);
  const BesideTargets beside = with_equal_widths(wanted, vocabulary);
  const std::vector<TokenPiece> pieces =
      vocabulary.pieces(rows.size(0), tokens_at_once(vocabulary, w.base.value));
  std::int64_t all_tokens = 0;
  for (const TokenPiece& piece : pieces) all_tokens += piece.all();
  std::vector<TokenGroup> waiting;
  JoinedBeside joined;
  for (const TokenPiece& piece : pieces) {
    const auto part = [&](const at::Tensor& of_call) {
      return of_call.narrow(0, piece.own.begin, piece.own.count());
    };
    const bool keep = want_grad && fits(of_losses != nullptr ? all_tokens : piece.all(), w.base.value);
    TokenGroup group(vocabulary, piece, rows, w, ids, beside, keep, logit_cap);
    const std::optional<TaughtLosses> taught = group.loss(part(result.losses));
    joined.add(group.distribution(), taught);
    if (!want_grad) part(result.greedy).copy_(group.greedy());
    if (const auto* const same = std::get_if<double>(&coefficients))
      group.gradient(at::full({piece.own.count()}, *same, options), part(result.d_hidden));
    if (of_losses != nullptr) waiting.push_back(std::move(group));
  }
  joined.give(result);
  if (of_losses == nullptr) return result;
  const at::Tensor of_tokens = rows.size(0) == 0 ? result.losses : (*of_losses)(result.losses);
  for (TokenGroup& group : waiting) {
    const Range tokens = group.tokens();
    group.gradient(of_tokens.narrow(0, tokens.begin, tokens.count()),
                   result.d_hidden.narrow(0, tokens.begin, tokens.count()));
  }
  return result;
}

at::Tensor logits(const at::Tensor& hidden, const Weight& w, VocabularyExchange* shared, float logit_cap) {
  const trace::Span span(trace::Kind::kOperation, "logits");
  const at::NoGradGuard no_grad;
  OwnVocabulary own(w.base.value.size(0));
  VocabularyExchange& vocabulary = shared == nullptr ? own : *shared;
  const at::Tensor rows = hidden.contiguous();
  std::vector<at::Tensor> parts;
  const std::int64_t at_once = shared == nullptr ? rows.size(0) : tokens_at_once(vocabulary, w.base.value);
  for (const TokenPiece& piece : vocabulary.pieces(rows.size(0), at_once)) {
    const at::Tensor own_tokens = rows.narrow(0, piece.own.begin, piece.own.count());
    at::Tensor out = ops::matmul(vocabulary.gather(piece, own_tokens), w.base.value.t());
    if (w.lora) LoraHead(*w.lora, own_tokens, DropoutDraw{}, vocabulary, piece).add_to(out, 0);
    bound(out, logit_cap);
    parts.push_back(vocabulary.columns(piece, out.to(at::kFloat)));
  }
  if (parts.empty()) return at::empty({0, vocabulary.vocabulary()}, rows.options().dtype(at::kFloat));
  return parts.size() == 1 ? parts.front() : at::cat(parts);
}

}  // namespace sluice::ops
