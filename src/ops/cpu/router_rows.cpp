#include "ops/cpu/router_rows.hpp"

#include "ops/cpu/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice::ops::cpu {
namespace {

SLUICE_VECTOR_CLONES float largest_of(const float* row, std::int64_t width) {
  float largest = -HUGE_VALF;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < width; ++i) largest = row[i] > largest ? row[i] : largest;
  return largest;
}

/// Computes out [E] = e^(number - largest) for each number of the row; returns the sum of `out`.
SLUICE_VECTOR_CLONES float exponentials_of(const float* row, std::int64_t width, float largest, float* out) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    out[i] = kernel::exponential(row[i] - largest);
    sum += out[i];
  }
  return sum;
}

SLUICE_VECTOR_CLONES void softmax_row(float* row, std::int64_t width) {
  const float scale = 1.0F / exponentials_of(row, width, largest_of(row, width), row);
  for (std::int64_t i = 0; i < width; ++i) row[i] *= scale;
}

SLUICE_VECTOR_CLONES void sigmoid_row(float* row, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) row[i] = kernel::sigmoid(row[i]);
}

/// Score of an expert that is already chosen, or must not be chosen.
constexpr float kOut = -HUGE_VALF;
/// Score below which no expert that may be chosen counts.
constexpr float kLeast = std::numeric_limits<float>::lowest();

/// Chooses the k largest scores of a row, of which at least k are not kOut; the row is overwritten.
void choose_row(std::span<float> row, std::span<std::int64_t> chosen) {
  for (std::int64_t& choice : chosen) {
    const float largest = largest_of(row.data(), std::ssize(row));
    // NaN equals nothing: if the largest score is NaN, the first remaining expert is chosen.
    const auto best = largest > kOut ? std::ranges::find(row, largest)
                                     : std::ranges::find_if(row, [](float score) { return score != kOut; });
    choice = best - row.begin();
    *best = kOut;
  }
}

/// Returns the sum of the two largest scores, or the largest one if there is only one; NaN if there is no
/// number.
float sum_of_largest(std::span<const float> scores, std::int64_t count) {
  float first = kOut, second = kOut;
  for (const float score : scores) {
    if (score > first)
      second = std::exchange(first, score);
    else if (score > second)
      second = score;
  }
  if (first == kOut) return std::numeric_limits<float>::quiet_NaN();
  return count == 1 || second == kOut ? first : first + second;
}

/// Chooses the experts of one token after another.
class Chooser {
 public:
  Chooser(const RouterOptions& options, std::int64_t experts)
      : options_(options), left_(static_cast<std::size_t>(experts)) {}

  void choose(const float* scores, std::span<std::int64_t> chosen) {
    // Logits may be as small as kOut, which scores never are.
    for (std::size_t i = 0; i < left_.size(); ++i) left_[i] = scores[i] < kLeast ? kLeast : scores[i];
    if (options_.correction_bias.defined()) {
      const float* const bias = options_.correction_bias.data_ptr<float>();
      for (std::size_t i = 0; i < left_.size(); ++i) left_[i] += bias[i];
    }
    if (options_.groups > 1) leave_out_groups();
    choose_row(left_, chosen);
  }

 private:
  void leave_out_groups() {
    const std::size_t size = left_.size() / static_cast<std::size_t>(options_.groups);
    groups_.clear();
    for (std::size_t begin = 0; begin < left_.size(); begin += size)
      groups_.push_back(sum_of_largest(std::span(left_).subspan(begin, size), options_.scores_per_group));
    chosen_.resize(static_cast<std::size_t>(options_.chosen_groups));
    choose_row(groups_, chosen_);
    for (std::size_t group = 0; group < groups_.size(); ++group)
      if (std::ranges::find(chosen_, static_cast<std::int64_t>(group)) == chosen_.end())
        std::ranges::fill(std::span(left_).subspan(group * size, size), kOut);
  }

  const RouterOptions& options_;
  std::vector<float> left_, groups_;
  std::vector<std::int64_t> chosen_;
};

/// Returns the sum of the probabilities of one token's chosen experts.
float sum_of_chosen(const float* probabilities, const std::int64_t* chosen, std::int64_t k) {
  float sum = 0;
  for (std::int64_t slot = 0; slot < k; ++slot) sum += probabilities[chosen[slot]];
  return sum;
}

/// Factor of the weights of a token's experts, and whether the factor depends on their scores.
struct WeightScale {
  float factor;
  bool is_of_sum;
};

WeightScale scale_of(const float* probabilities, const std::int64_t* chosen, std::int64_t k,
                     const RouterOptions& options) {
  if (!options.normalize_weights) return {options.scale, false};
  const float sum = sum_of_chosen(probabilities, chosen, k);
  if (sum < options.least_sum) return {options.scale / (options.least_sum + options.epsilon), false};
  return {options.scale / (sum + options.epsilon), true};
}

void weigh_row(const float* probabilities, const std::int64_t* chosen, std::int64_t k,
               const RouterOptions& options, float* weights) {
  const float scale = scale_of(probabilities, chosen, k, options).factor;
  for (std::int64_t slot = 0; slot < k; ++slot) weights[slot] = probabilities[chosen[slot]] * scale;
}

/// Adds to grad [E] the part of the probabilities' gradient that comes through the weights.
void add_picked(const float* probabilities, const std::int64_t* chosen, const float* weights,
                const RouterOptions& options, const float* d_weights, std::int64_t k, float* grad) {
  const WeightScale scale = scale_of(probabilities, chosen, k, options);
  float shift = 0;
  if (scale.is_of_sum) {
    for (std::int64_t slot = 0; slot < k; ++slot) shift += d_weights[slot] * weights[slot];
    shift /= options.scale;
  }
  for (std::int64_t slot = 0; slot < k; ++slot)
    grad[chosen[slot]] += (d_weights[slot] - shift) * scale.factor;
}

/// Turns the gradient of a softmax's outputs into the gradient of its inputs, in place.
SLUICE_VECTOR_CLONES void softmax_row_backward(const float* probabilities, std::int64_t width, float* grad) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t i = 0; i < width; ++i) dot += grad[i] * probabilities[i];
  for (std::int64_t i = 0; i < width; ++i) grad[i] = probabilities[i] * (grad[i] - dot);
}

SLUICE_VECTOR_CLONES void sigmoid_row_backward(const float* scores, std::int64_t width, float* grad) {
  for (std::int64_t i = 0; i < width; ++i) grad[i] *= scores[i] * (1.0F - scores[i]);
}

/// Adds the z-loss to the gradient of one token's logits, through a buffer of the same length.
SLUICE_VECTOR_CLONES void add_z_row(const float* logits, std::int64_t width, float z_scale,
                                    float* exponentials, float* grad) {
  const float largest = largest_of(logits, width);
  const float sum = exponentials_of(logits, width, largest, exponentials);
  const float factor = z_scale * (largest + std::log(sum)) / sum;
  for (std::int64_t i = 0; i < width; ++i) grad[i] += factor * exponentials[i];
}

void split_row(const float* row, std::int64_t width, float* terms) { std::copy_n(row, width, terms); }

SLUICE_VECTOR_CLONES void split_row(const float* row, std::int64_t width, at::BFloat16* terms) {
  kernel::store_row(row, width, terms);
  for (std::int64_t i = 0; i < width; ++i)
    terms[width + i] = kernel::store_result<at::BFloat16>(row[i] - kernel::load(terms[i]));
}

}  // namespace

void router_rows(const at::Tensor& logits, Choice choice, const RouterOptions& options,
                 const at::Tensor& chosen, const at::Tensor& weights) {
  const std::int64_t width = logits.size(1), k = chosen.size(1);
  at::parallel_for(0, logits.size(0), kernel::grain(width * k), [&](std::int64_t begin, std::int64_t end) {
    Chooser chooser(options, width);
    for (std::int64_t token = begin; token < end; ++token) {
      float* const row = logits.data_ptr<float>() + token * width;
      std::int64_t* const choices = chosen.data_ptr<std::int64_t>() + token * k;
      const auto choose_if = [&](bool is_time) {
        if (choice == Choice::kMake && is_time) chooser.choose(row, {choices, static_cast<std::size_t>(k)});
      };
      choose_if(options.chooses_by_logits);
      if (options.score == RouterScore::kSigmoid)
        sigmoid_row(row, width);
      else
        softmax_row(row, width);
      choose_if(!options.chooses_by_logits);
      weigh_row(row, choices, k, options, weights.data_ptr<float>() + token * k);
    }
  });
}

void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& logits, const at::Tensor& chosen,
                          const at::Tensor& weights, const RouterOptions& options,
                          const at::Tensor& d_weights, const RouterLossGrad& losses,
                          const at::Tensor& d_logits) {
  const std::int64_t width = probabilities.size(1), k = chosen.size(1);
  const float* const common = losses.of_token.defined() ? losses.of_token.data_ptr<float>() : nullptr;
  const bool* const counts = losses.counted.defined() ? losses.counted.data_ptr<bool>() : nullptr;
  at::parallel_for(0, d_logits.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> grads(static_cast<std::size_t>(width)), exponentials(grads.size());
    float* const grad = grads.data();
    for (std::int64_t token = begin; token < end; ++token) {
      const float* const row = probabilities.data_ptr<float>() + token * width;
      const bool is_counted = counts == nullptr || counts[token];
      if (common != nullptr && is_counted)
        std::copy_n(common, width, grad);
      else
        std::fill_n(grad, width, 0.0F);
      add_picked(row, chosen.data_ptr<std::int64_t>() + token * k, weights.data_ptr<float>() + token * k,
                 options, d_weights.data_ptr<float>() + token * k, k, grad);
      if (options.score == RouterScore::kSigmoid)
        sigmoid_row_backward(row, width, grad);
      else
        softmax_row_backward(row, width, grad);
      if (losses.z_scale != 0 && is_counted)
        add_z_row(logits.data_ptr<float>() + token * width, width, losses.z_scale, exponentials.data(), grad);
      kernel::dispatch(d_logits, [&](auto element) {
        split_row(grad, width, d_logits.data_ptr<decltype(element)>() + token * d_logits.size(1));
      });
    }
  });
}

}  // namespace sluice::ops::cpu
