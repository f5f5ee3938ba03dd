#include "ops/cpu/router_rows.hpp"

#include "ops/cpu/kernel.hpp"

#include <vector>

namespace sluice::ops::cpu {
namespace {

SLUICE_VECTOR_CLONES float largest_of(const float* row, std::int64_t width) {
  float largest = -HUGE_VALF;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < width; ++i) largest = row[i] > largest ? row[i] : largest;
  return largest;
}

SLUICE_VECTOR_CLONES void softmax_row(float* row, std::int64_t width) {
  const float largest = largest_of(row, width);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) {
    row[i] = kernel::exponential(row[i] - largest);
    sum += row[i];
  }
  const float scale = 1.0F / sum;
  for (std::int64_t i = 0; i < width; ++i) row[i] *= scale;
}

/// Destroys the row: what is chosen becomes negative.
void choose_row(std::vector<float>& probabilities, std::int64_t k, std::int64_t* chosen) {
  constexpr float kChosen = -1;
  for (std::int64_t slot = 0; slot < k; ++slot) {
    const float largest = largest_of(probabilities.data(), std::ssize(probabilities));
    // Not a number is equal to nothing: then the first that is left.
    auto best = largest >= 0 ? std::ranges::find(probabilities, largest)
                             : std::ranges::find_if(probabilities, [](float p) { return p != kChosen; });
    chosen[slot] = best - probabilities.begin();
    *best = kChosen;
  }
}

/// Over one token's choices.
float sum_of_chosen(const float* probabilities, const std::int64_t* chosen, std::int64_t k) {
  float sum = 0;
  for (std::int64_t slot = 0; slot < k; ++slot) sum += probabilities[chosen[slot]];
  return sum;
}

void weigh_row(const float* probabilities, const std::int64_t* chosen, std::int64_t k, bool normalize,
               float* weights) {
  const float scale = normalize ? 1.0F / sum_of_chosen(probabilities, chosen, k) : 1.0F;
  for (std::int64_t slot = 0; slot < k; ++slot) weights[slot] = probabilities[chosen[slot]] * scale;
}

/// grad [E] += the part of the gradient of the probabilities that comes through the weights.
void add_picked(const float* probabilities, const std::int64_t* chosen, const float* weights, bool normalize,
                const float* d_weights, std::int64_t k, float* grad) {
  float shift = 0, scale = 1;
  if (normalize) {
    for (std::int64_t slot = 0; slot < k; ++slot) shift += d_weights[slot] * weights[slot];
    scale = 1.0F / sum_of_chosen(probabilities, chosen, k);
  }
  for (std::int64_t slot = 0; slot < k; ++slot) grad[chosen[slot]] += (d_weights[slot] - shift) * scale;
}

/// Gradient of a softmax's inputs from that of its outputs, in place.
SLUICE_VECTOR_CLONES void softmax_row_backward(const float* probabilities, std::int64_t width, float* grad) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t i = 0; i < width; ++i) dot += grad[i] * probabilities[i];
  for (std::int64_t i = 0; i < width; ++i) grad[i] = probabilities[i] * (grad[i] - dot);
}

void split_row(const float* row, std::int64_t width, float* terms) { std::copy_n(row, width, terms); }

SLUICE_VECTOR_CLONES void split_row(const float* row, std::int64_t width, at::BFloat16* terms) {
  kernel::store_row(row, width, terms);
  for (std::int64_t i = 0; i < width; ++i)
    terms[width + i] = kernel::store_result<at::BFloat16>(row[i] - kernel::load(terms[i]));
}

}  // namespace

void router_rows(const at::Tensor& logits, Choice choice, bool normalize, const at::Tensor& chosen,
                 const at::Tensor& weights) {
  const std::int64_t width = logits.size(1), k = chosen.size(1);
  at::parallel_for(0, logits.size(0), kernel::grain(width * k), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> copy;
    for (std::int64_t token = begin; token < end; ++token) {
      float* const row = logits.data_ptr<float>() + token * width;
      std::int64_t* const choices = chosen.data_ptr<std::int64_t>() + token * k;
      softmax_row(row, width);
      if (choice == Choice::kMake) {
        copy.assign(row, row + width);
        choose_row(copy, k, choices);
      }
      weigh_row(row, choices, k, normalize, weights.data_ptr<float>() + token * k);
    }
  });
}

void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& chosen,
                          const at::Tensor& weights, bool normalize, const at::Tensor& d_weights,
                          const at::Tensor& probability_grad, const at::Tensor& counted,
                          const at::Tensor& d_logits) {
  const std::int64_t width = probabilities.size(1), k = chosen.size(1);
  const float* const common = probability_grad.defined() ? probability_grad.data_ptr<float>() : nullptr;
  const bool* const counts = counted.defined() ? counted.data_ptr<bool>() : nullptr;
  at::parallel_for(0, d_logits.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> grads(static_cast<std::size_t>(width));
    float* const grad = grads.data();
    for (std::int64_t token = begin; token < end; ++token) {
      const float* const row = probabilities.data_ptr<float>() + token * width;
      if (common != nullptr && (counts == nullptr || counts[token]))
        std::copy_n(common, width, grad);
      else
        std::fill_n(grad, width, 0.0F);
      add_picked(row, chosen.data_ptr<std::int64_t>() + token * k, weights.data_ptr<float>() + token * k,
                 normalize, d_weights.data_ptr<float>() + token * k, k, grad);
      softmax_row_backward(row, width, grad);
      kernel::dispatch(d_logits, [&](auto element) {
        split_row(grad, width, d_logits.data_ptr<decltype(element)>() + token * d_logits.size(1));
      });
    }
  });
}

}  // namespace sluice::ops::cpu
