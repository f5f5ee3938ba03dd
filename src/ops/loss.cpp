#include "ops/loss.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "ops/matmul.hpp"
#include "ops/processor.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace sluice::ops {
namespace {

/// Vocabulary rows of a tile: with the tokens of a group few enough that the products run in cache.
constexpr std::int64_t kTileWidth = 1024;

bool fits(std::int64_t tokens, const at::Tensor& weight) {
  return tokens * weight.size(0) * weight.element_size() <= kKeptLogitBytes;
}

/// Of no logits.
LogitSums empty_sums(const at::Tensor& hidden) {
  const std::int64_t tokens = hidden.size(0);
  const at::TensorOptions single = hidden.options().dtype(at::kFloat);
  return {at::full({tokens}, -HUGE_VAL, single), at::zeros({tokens}, single.dtype(at::kDouble)),
          at::zeros({tokens}, single)};
}

/// Cross-entropy of one group of tokens: hidden [n, H], targets [n].
class TokenGroup {
 public:
  TokenGroup(at::Tensor hidden, const Parameter& w, at::Tensor targets, bool want_grad)
      : hidden_(std::move(hidden)),
        w_(w),
        targets_(std::move(targets)),
        sums_(empty_sums(hidden_)),
        keep_(want_grad && fits(hidden_.size(0), w.value)) {}

  void loss(const at::Tensor& losses) {
    for (std::int64_t first = 0; first < vocabulary(); first += kTileWidth) {
      const at::Tensor logits = tile(first);
      on::join_logits(logits, first, targets_, sums_);
      if (keep_) kept_.push_back(logits);
    }
    on::cross_entropies(sums_, targets_, losses);
  }

  /// After loss(). What was not kept is computed anew.
  void gradient(double scale, const at::Tensor& d_hidden) {
    const Into into = into_gradient(w_);
    const at::Tensor total = at::zeros(d_hidden.sizes(), d_hidden.options().dtype(at::kFloat));
    for (std::int64_t first = 0; first < vocabulary(); first += kTileWidth) {
      const at::Tensor logits = keep_ ? kept_[static_cast<std::size_t>(first / kTileWidth)] : tile(first);
      on::logits_to_gradient(logits, first, targets_, sums_, scale);
      ops::matmul(total, logits, rows(w_.value, first), Into::kAdd);
      if (w_.grad.defined()) ops::matmul(rows(w_.grad, first), logits.t(), hidden_, into);
    }
    d_hidden.copy_(total);
  }

 private:
  [[nodiscard]] std::int64_t vocabulary() const { return w_.value.size(0); }
  [[nodiscard]] static at::Tensor rows(const at::Tensor& weight, std::int64_t first) {
    return weight.narrow(0, first, std::min(kTileWidth, weight.size(0) - first));
  }
  /// Logits of the words from `first` on.
  [[nodiscard]] at::Tensor tile(std::int64_t first) const {
    return ops::matmul(hidden_, rows(w_.value, first).t());
  }

  at::Tensor hidden_;
  const Parameter& w_;
  at::Tensor targets_;
  LogitSums sums_;
  bool keep_;
  std::vector<at::Tensor> kept_{};
};

void check_targets(const at::Tensor& targets, std::int64_t vocabulary) {
  if (const auto bad = on::first_outside(targets, vocabulary, kNoTarget))
    fail(ExitCode::kBadData, "target token {} of the batch has id {}, but the model's vocabulary ends at {}",
         bad->place, bad->id, vocabulary - 1);
}

}  // namespace

CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Parameter& w, const at::Tensor& targets,
                                  double loss_scale, bool want_grad) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = targets.contiguous();
  check_targets(ids, w.value.size(0));
  const at::Tensor rows = hidden.contiguous();
  CrossEntropy result{at::empty({rows.size(0)}, rows.options().dtype(at::kDouble)), {}};
  if (want_grad) result.d_hidden = at::empty_like(rows);
  // More where none are kept, because the weight and its gradient pass through memory once per group.
  const std::int64_t tokens = fits(kKeptLogitTokens, w.value) ? kKeptLogitTokens : kLossTokens;
  for (std::int64_t begin = 0; begin < rows.size(0); begin += tokens) {
    const std::int64_t count = std::min(tokens, rows.size(0) - begin);
    TokenGroup group(rows.narrow(0, begin, count), w, ids.narrow(0, begin, count), want_grad);
    group.loss(result.losses.narrow(0, begin, count));
    if (want_grad) group.gradient(loss_scale, result.d_hidden.narrow(0, begin, count));
  }
  return result;
}

at::Tensor logits(const at::Tensor& hidden, const Parameter& w) {
  const at::NoGradGuard no_grad;
  return ops::matmul(hidden.contiguous(), w.value.t()).to(at::kFloat);
}

}  // namespace sluice::ops
