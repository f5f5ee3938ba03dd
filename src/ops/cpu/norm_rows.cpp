#include "ops/cpu/norm_rows.hpp"

#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"

#include <ATen/ops/zeros.h>

namespace sluice::ops::cpu {
namespace {

template <NormKind kKind, class T>
float factor(T weight) {
  return kKind == NormKind::kZeroCentred ? 1.0F + kernel::load(weight) : kernel::load(weight);
}
template <NormKind kKind, class T>
float before_factor(float normalised) {
  return kKind == NormKind::kFactor ? kernel::rounded<T>(normalised) : normalised;
}

template <class T>
SLUICE_VECTOR_CLONES float mean_of(const T* row, std::int64_t width) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += kernel::load(row[i]);
  return sum / static_cast<float>(width);
}

/// The mean that the kind takes off a row, and a value less such a mean.
template <NormKind kKind, class T>
float centre_of(const T* row, std::int64_t width) {
  return kKind == NormKind::kLayerNorm ? mean_of(row, width) : 0.0F;
}
template <NormKind kKind>
float less(float value, float mean) {
  return kKind == NormKind::kLayerNorm ? value - mean : value;
}

/// Computes y = factor * (x * scale) for rows [begin, end), where scale = 1 / sqrt(mean(x^2) + eps), with x less its
/// row's centre, and stores the scale of each row. `weights` has `groups` rows, which rows of x use in turn.
template <NormKind kKind, class T>
SLUICE_VECTOR_CLONES void normalise_rows(const T* x, const T* weights, T* y, float* scales,
                                         std::int64_t begin, std::int64_t end, std::int64_t width,
                                         std::int64_t groups, float eps) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* weight = weights + row % groups * width;
    const T* in = x + row * width;
    T* out = y + row * width;
    const float centre = centre_of<kKind>(in, width);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) {
      const float value = less<kKind>(kernel::load(in[i]), centre);
      squares += value * value;
    }
    const float scale = 1.0F / std::sqrt(squares / static_cast<float>(width) + eps);
    scales[row] = scale;
    for (std::int64_t i = 0; i < width; ++i)
      out[i] =
          kernel::store_result<T>(factor<kKind>(weight[i]) *
                                  before_factor<kKind, T>(less<kKind>(kernel::load(in[i]), centre) * scale));
  }
}

/// Computes d_x of rows [begin, end) and adds their part of the weight's gradient to d_weights (`groups` rows
/// for each block).
template <NormKind kKind, class T>
SLUICE_VECTOR_CLONES void backward_rows(const T* x, const T* weights, const T* d_y, const float* scales,
                                        T* d_x, float* d_weights, std::int64_t begin, std::int64_t end,
                                        std::int64_t width, std::int64_t groups) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* weight = weights + row % groups * width;
    float* d_weight = d_weights + row % groups * width;
    const T* in = x + row * width;
    const T* up = d_y + row * width;
    const float scale = scales[row], centre = centre_of<kKind>(in, width);
    float dot = 0, sum = 0;
#pragma omp simd reduction(+ : dot, sum)
    for (std::int64_t i = 0; i < width; ++i) {
      const float grad = kernel::load(up[i]) * factor<kKind>(weight[i]);
      dot += grad * less<kKind>(kernel::load(in[i]), centre);
      if constexpr (kKind == NormKind::kLayerNorm) sum += grad;
    }
    const float shrink = dot * scale * scale / static_cast<float>(width);
    const float shift = sum / static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const float value = less<kKind>(kernel::load(in[i]), centre);
      const float grad = kernel::load(up[i]);
      d_x[row * width + i] = kernel::store_result<T>(
          scale * (less<kKind>(grad * factor<kKind>(weight[i]), shift) - value * shrink));
      d_weight[i] += grad * before_factor<kKind, T>(value * scale);
    }
  }
}

/// Number of rows in a block, whose weight gradients are summed one row after the other; the sums of the
/// blocks are added in order afterwards.
constexpr std::int64_t kBlockRows = 64;

/// Adds the blocks [blocks, width] to sum, one after the other.
SLUICE_VECTOR_CLONES void add_blocks(const float* partial, std::int64_t blocks, std::int64_t width,
                                     float* sum) {
  for (std::int64_t block = 0; block < blocks; ++block)
    for (std::int64_t i = 0; i < width; ++i) sum[i] += partial[block * width + i];
}

template <NormKind kKind, class T>
void normalise(const at::Tensor& x, const at::Tensor& weight, float eps, const at::Tensor& y,
               const at::Tensor& scales) {
  const std::int64_t width = x.size(-1);
  at::parallel_for(0, scales.numel(), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
    normalise_rows<kKind>(x.data_ptr<T>(), weight.data_ptr<T>(), y.data_ptr<T>(), scales.data_ptr<float>(),
                          begin, end, width, weight.numel() / width, eps);
  });
}

template <NormKind kKind, class T>
void normalise_backward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scales,
                        const at::Tensor& d_y, const at::Tensor& d_x, const at::Tensor& d_weight) {
  const std::int64_t width = x.size(-1);
  const std::int64_t rows = x.numel() / width;
  const std::int64_t blocks = divide_up(rows, kBlockRows);
  const std::int64_t groups = weight.numel() / width;
  const at::Tensor partial = at::zeros({blocks, weight.numel()}, scales.options());
  at::parallel_for(0, blocks, kernel::grain(kBlockRows * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      backward_rows<kKind>(x.data_ptr<T>(), weight.data_ptr<T>(), d_y.data_ptr<T>(), scales.data_ptr<float>(),
                           d_x.data_ptr<T>(), partial.data_ptr<float>() + block * weight.numel(),
                           block * kBlockRows, std::min(rows, (block + 1) * kBlockRows), width, groups);
  });
  if (d_weight.defined())
    add_blocks(partial.data_ptr<float>(), blocks, weight.numel(), d_weight.data_ptr<float>());
}

/// Calls f<kind>(value of the tensor's element type).
template <class F>
void dispatch_norm(const at::Tensor& x, NormKind kind, F f) {
  kernel::dispatch(x, [&]<class T>(T value) {
    switch (kind) {
      case NormKind::kLayerNorm:
        return f.template operator()<NormKind::kLayerNorm>(value);
      case NormKind::kFactor:
        return f.template operator()<NormKind::kFactor>(value);
      case NormKind::kZeroCentred:
        return f.template operator()<NormKind::kZeroCentred>(value);
      case NormKind::kUnrounded:
        return f.template operator()<NormKind::kUnrounded>(value);
    }
  });
}

}  // namespace

void norm_rows(const at::Tensor& x, const at::Tensor& weight, double eps, NormKind kind, const at::Tensor& y,
               const at::Tensor& scales) {
  dispatch_norm(x, kind, [&]<NormKind kKind, class T>(T) {
    normalise<kKind, T>(x, weight, static_cast<float>(eps), y, scales);
  });
}

void norm_rows_backward(const at::Tensor& x, const at::Tensor& weight, NormKind kind,
                        const at::Tensor& scales, const at::Tensor& d_y, const at::Tensor& d_x,
                        const at::Tensor& d_weight) {
  dispatch_norm(x, kind, [&]<NormKind kKind, class T>(T) {
    normalise_backward<kKind, T>(x, weight, scales, d_y, d_x, d_weight);
  });
}

}  // namespace sluice::ops::cpu
