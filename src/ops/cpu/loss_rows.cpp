#include "ops/cpu/loss_rows.hpp"

#include "ops/cpu/kernel.hpp"
#include "ops/loss.hpp"

#include <array>

namespace sluice::ops::cpu {
namespace {

/// The LogitSums of one token.
struct TokenSum {
  float largest;
  double exponentials;
  float target;
};

/// Adds a row of logits to the sums of one token.
template <class T>
SLUICE_VECTOR_CLONES void join_logit_row(const T* row, std::int64_t width, TokenSum& sum) {
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

/// Turns logits into scale * softmax, in place. Conversions have loops of their own: a loop over two element
/// widths is slower.
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

/// Pointers to the elements of LogitSums.
struct SumArrays {
  explicit SumArrays(const LogitSums& sums)
      : largest(sums.largest.data_ptr<float>()),
        exponentials(sums.exponentials.data_ptr<double>()),
        target(sums.target.data_ptr<float>()) {}
  [[nodiscard]] TokenSum operator[](std::int64_t token) const {
    return {largest[token], exponentials[token], target[token]};
  }
  void set(std::int64_t token, const TokenSum& sum) const {
    largest[token] = sum.largest;
    exponentials[token] = sum.exponentials;
    target[token] = sum.target;
  }

 private:
  float* largest;
  double* exponentials;
  float* target;
};

/// Returns the column of a target in a row of `width` logits whose first token id is `first`, or -1 if the
/// row does not hold it.
std::int64_t column_of(std::int64_t target, std::int64_t first, std::int64_t width) {
  return target >= first && target < first + width ? target - first : -1;
}

}  // namespace

void join_logits(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                 const LogitSums& sums) {
  const std::int64_t width = logits.size(1);
  const std::int64_t* const target = targets.data_ptr<std::int64_t>();
  const SumArrays arrays(sums);
  kernel::dispatch(logits, [&]<class T>(T) {
    at::parallel_for(0, logits.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const T* row = logits.data_ptr<T>() + t * width;
        TokenSum sum = arrays[t];
        join_logit_row(row, width, sum);
        if (const auto column = column_of(target[t], first, width); column >= 0)
          sum.target = kernel::load(row[column]);
        arrays.set(t, sum);
      }
    });
  });
}

void cross_entropies(const LogitSums& sums, const at::Tensor& targets, const at::Tensor& losses) {
  const std::int64_t* const target = targets.data_ptr<std::int64_t>();
  double* const loss = losses.data_ptr<double>();
  const SumArrays arrays(sums);
  for (std::int64_t t = 0; t < losses.numel(); ++t) {
    const TokenSum sum = arrays[t];
    loss[t] = target[t] == kNoTarget ? 0.0 : std::log(sum.exponentials) + sum.largest - sum.target;
  }
}

void logits_to_gradient(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                        const LogitSums& sums, const at::Tensor& coefficients) {
  const std::int64_t width = logits.size(1);
  const std::int64_t* const target = targets.data_ptr<std::int64_t>();
  const double* const coefficient = coefficients.data_ptr<double>();
  const SumArrays arrays(sums);
  kernel::dispatch(logits, [&]<class T>(T) {
    at::parallel_for(0, logits.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        T* row = logits.data_ptr<T>() + t * width;
        const TokenSum sum = arrays[t];
        const double factor = target[t] == kNoTarget ? 0.0 : coefficient[t] / sum.exponentials;
        scaled_softmax_row(row, width, sum.largest, static_cast<float>(factor));
        if (const auto column = column_of(target[t], first, width); column >= 0) {
          const double share = std::exp(static_cast<double>(sum.target) - sum.largest) / sum.exponentials;
          row[column] = kernel::store<T>(static_cast<float>((share - 1.0) * coefficient[t]));
        }
      }
    });
  });
}

}  // namespace sluice::ops::cpu
