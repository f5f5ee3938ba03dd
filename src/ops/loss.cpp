#include "ops/loss.hpp"

#include "ops/cpu/kernel.hpp"
#include "ops/matmul.hpp"
#include "ops/sizes.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <vector>

namespace sluice::ops {
namespace {

/// What is known of a token's logits after some tiles of the vocabulary.
struct TokenSum {
  float largest = -HUGE_VALF;
  double exponentials = 0;  ///< sum of e^(logit - largest)
  float target = 0;         ///< logit of the target
};

/// Joins a row of logits into the sum.
template <class T>
SLUICE_VECTOR_CLONES void join_row(const T* row, std::int64_t width, TokenSum& sum) {
  float largest = sum.largest;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < width; ++i)
    largest = kernel::load(row[i]) > largest ? kernel::load(row[i]) : largest;
  float exponentials = 0;
#pragma omp simd reduction(+ : exponentials)
  for (std::int64_t i = 0; i < width; ++i)
    exponentials += kernel::exponential_below(kernel::load(row[i]) - largest);
  sum.exponentials = sum.exponentials * std::exp(static_cast<double>(sum.largest) - largest) + exponentials;
  sum.largest = largest;
}

/// Logits to scale * softmax, in place. Conversions in loops of their own: a loop over two widths of element
/// is slower.
template <class T>
SLUICE_VECTOR_CLONES void scaled_softmax_row(T* row, std::int64_t width, float largest, float factor) {
  constexpr std::int64_t kChunk = 1024;
  std::array<float, kChunk> scratch;
  float* values = scratch.data();
  for (std::int64_t begin = 0; begin < width; begin += kChunk) {
    T* chunk = row + begin;
    const std::int64_t count = std::min(kChunk, width - begin);
    for (std::int64_t i = 0; i < count; ++i) values[i] = kernel::load(chunk[i]) - largest;
    for (std::int64_t i = 0; i < count; ++i) values[i] = kernel::exponential_below(values[i]) * factor;
    for (std::int64_t i = 0; i < count; ++i) chunk[i] = kernel::store_result<T>(values[i]);
  }
}

/// A tile of logits: some tokens by the vocabulary from `first` on.
struct Tile {
  at::Tensor logits;
  std::int64_t first;
  /// Where a target lies in a row, or -1.
  [[nodiscard]] std::int64_t column(std::int64_t target) const {
    return target >= first && target < first + logits.size(1) ? target - first : -1;
  }
};

void join(const Tile& tile, const std::int64_t* targets, std::vector<TokenSum>& sums) {
  const std::int64_t width = tile.logits.size(1);
  kernel::dispatch(tile.logits, [&]<class T>(T) {
    at::parallel_for(0, tile.logits.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const T* row = tile.logits.data_ptr<T>() + t * width;
        TokenSum& sum = sums[static_cast<std::size_t>(t)];
        join_row(row, width, sum);
        if (const auto column = tile.column(targets[t]); column >= 0) sum.target = kernel::load(row[column]);
      }
    });
  });
}

/// Logits to the gradient of scale * cross-entropy, in place.
void to_gradient(const Tile& tile, const std::int64_t* targets, const std::vector<TokenSum>& sums,
                 double scale) {
  const std::int64_t width = tile.logits.size(1);
  kernel::dispatch(tile.logits, [&]<class T>(T) {
    at::parallel_for(0, tile.logits.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        T* row = tile.logits.data_ptr<T>() + t * width;
        const TokenSum& sum = sums[static_cast<std::size_t>(t)];
        const double factor = targets[t] == kNoTarget ? 0.0 : scale / sum.exponentials;
        scaled_softmax_row(row, width, sum.largest, static_cast<float>(factor));
        if (const auto column = tile.column(targets[t]); column >= 0) {
          const double share = std::exp(static_cast<double>(sum.target) - sum.largest) / sum.exponentials;
          row[column] = kernel::store<T>(static_cast<float>((share - 1.0) * scale));
        }
      }
    });
  });
}

/// Vocabulary rows of a tile: with the tokens of a group few enough that the products run in cache.
constexpr std::int64_t kTileWidth = 1024;

bool fits(std::int64_t tokens, const at::Tensor& weight) {
  return tokens * weight.size(0) * weight.element_size() <= kKeptLogitBytes;
}

/// Cross-entropy of one group of tokens.
class TokenGroup {
 public:
  TokenGroup(at::Tensor hidden, const Parameter& w, const std::int64_t* targets, bool want_grad)
      : hidden_(std::move(hidden)),
        w_(w),
        targets_(targets),
        sums_(static_cast<std::size_t>(hidden_.size(0))),
        keep_(want_grad && fits(hidden_.size(0), w.value)) {}

  void loss(double* losses) {
    for (std::int64_t first = 0; first < vocabulary(); first += kTileWidth) {
      const Tile logits = tile(first);
      join(logits, targets_, sums_);
      if (keep_) kept_.push_back(logits);
    }
    for (std::size_t t = 0; t < sums_.size(); ++t)
      losses[t] = targets_[t] == kNoTarget
                      ? 0.0
                      : std::log(sums_[t].exponentials) + sums_[t].largest - sums_[t].target;
  }

  /// After loss(). What was not kept is computed anew.
  void gradient(double scale, const at::Tensor& d_hidden) {
    const Into into = into_gradient(w_);
    const at::Tensor total = at::zeros(d_hidden.sizes(), d_hidden.options().dtype(at::kFloat));
    for (std::int64_t first = 0; first < vocabulary(); first += kTileWidth) {
      const Tile logits = keep_ ? kept_[static_cast<std::size_t>(first / kTileWidth)] : tile(first);
      to_gradient(logits, targets_, sums_, scale);
      ops::matmul(total, logits.logits, rows(w_.value, first), Into::kAdd);
      if (w_.grad.defined()) ops::matmul(rows(w_.grad, first), logits.logits.t(), hidden_, into);
    }
    d_hidden.copy_(total);
  }

 private:
  [[nodiscard]] std::int64_t vocabulary() const { return w_.value.size(0); }
  [[nodiscard]] static at::Tensor rows(const at::Tensor& weight, std::int64_t first) {
    return weight.narrow(0, first, std::min(kTileWidth, weight.size(0) - first));
  }
  [[nodiscard]] Tile tile(std::int64_t first) const {
    return {ops::matmul(hidden_, rows(w_.value, first).t()), first};
  }

  at::Tensor hidden_;
  const Parameter& w_;
  const std::int64_t* targets_;
  std::vector<TokenSum> sums_;
  bool keep_;
  std::vector<Tile> kept_{};
};

void check_targets(const at::Tensor& targets, std::int64_t vocabulary) {
  const std::int64_t* target = targets.data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t < targets.numel(); ++t)
    if (target[t] != kNoTarget && (target[t] < 0 || target[t] >= vocabulary))
      fail(ExitCode::kBadData,
           "target token {} of the batch has id {}, but the model's vocabulary ends at {}", t, target[t],
           vocabulary - 1);
}

}  // namespace

CrossEntropy linear_cross_entropy(const at::Tensor& hidden, const Parameter& w, const at::Tensor& targets,
                                  double loss_scale, bool want_grad) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = targets.contiguous();
  check_targets(ids, w.value.size(0));
  const at::Tensor rows = hidden.contiguous();
  CrossEntropy result{at::empty({rows.size(0)}, at::kDouble), {}};
  if (want_grad) result.d_hidden = at::empty_like(rows);
  // More where none are kept, because the weight and its gradient pass through memory once per group.
  const std::int64_t tokens = fits(kKeptLogitTokens, w.value) ? kKeptLogitTokens : kLossTokens;
  for (std::int64_t begin = 0; begin < rows.size(0); begin += tokens) {
    const std::int64_t count = std::min(tokens, rows.size(0) - begin);
    TokenGroup group(rows.narrow(0, begin, count), w, ids.data_ptr<std::int64_t>() + begin, want_grad);
    group.loss(result.losses.data_ptr<double>() + begin);
    if (want_grad) group.gradient(loss_scale, result.d_hidden.narrow(0, begin, count));
  }
  return result;
}

at::Tensor logits(const at::Tensor& hidden, const Parameter& w) {
  const at::NoGradGuard no_grad;
  return ops::matmul(hidden.contiguous(), w.value.t()).to(at::kFloat);
}

}  // namespace sluice::ops
