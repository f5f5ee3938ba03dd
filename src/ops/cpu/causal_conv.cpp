#include "ops/cpu/causal_conv.hpp"

#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/token_ids.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <utility>

namespace sluice::ops::cpu {
namespace {

/// Number of channels that one thread takes through all tokens: their filters and sums stay in the nearest
/// cache.
constexpr std::int64_t kBlock = 128;

/// A block of channels of one sequence: rows of `stride` elements, `count` of which are the block's.
struct Channels {
  std::int64_t length;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t taps;
  const std::int64_t* document;  ///< Document of each position, see document_of().
  ConvActivation activation;

  /// The first tap of the filter that meets a token of the document of token t.
  [[nodiscard]] std::int64_t first_tap(std::int64_t t) const {
    const std::int64_t seen = t - first_seen(document, t);
    return std::max<std::int64_t>(0, taps - 1 - seen);
  }
};

/// Computes sums = the sums over the taps at token t, and the bias. `filters` is [taps + 1][kBlock], the biases
/// last.
template <class T>
inline void sum_taps(const T* x, const float* filters, std::int64_t t, const Channels& c, float* sums) {
  std::copy_n(filters + c.taps * kBlock, c.count, sums);
  for (std::int64_t j = c.first_tap(t); j < c.taps; ++j) {
    const T* row = x + (t - c.taps + 1 + j) * c.stride;
    const float* filter = filters + j * kBlock;
    for (std::int64_t i = 0; i < c.count; ++i) sums[i] += filter[i] * kernel::load(row[i]);
  }
}

template <class T>
SLUICE_VECTOR_CLONES void forward_block(const T* x, const float* filters, T* y, const Channels& c) {
  std::array<float, kBlock> sums;
  for (std::int64_t t = 0; t < c.length; ++t) {
    sum_taps(x, filters, t, c, sums.data());
    if (c.activation == ConvActivation::kSilu)
      for (std::int64_t i = 0; i < c.count; ++i) {
        float& sum = sums[static_cast<std::size_t>(i)];
        sum *= kernel::sigmoid(sum);
      }
    kernel::store_row(sums.data(), c.count, y + t * c.stride);
  }
}

/// Computes d_sums = the gradient of the sums at token t from d_y, that of its outputs.
template <class T>
inline void gradient_of_sums(const T* x, const float* filters, const T* d_y, std::int64_t t,
                             const Channels& c, float* d_sums) {
  if (c.activation == ConvActivation::kNone) {
    for (std::int64_t i = 0; i < c.count; ++i) d_sums[i] = kernel::load(d_y[i]);
    return;
  }
  sum_taps(x, filters, t, c, d_sums);
  for (std::int64_t i = 0; i < c.count; ++i) {
    const float sum = d_sums[i], gate = kernel::sigmoid(sum);
    d_sums[i] = kernel::load(d_y[i]) * gate * (1.0F + sum * (1.0F - gate));
  }
}

/// Adds the gradients to d_x (float32 rows of kBlock, one per token) and d_filters (same layout as filters).
template <class T>
SLUICE_VECTOR_CLONES void backward_block(const T* x, const float* filters, const T* d_y, float* d_x,
                                         float* d_filters, const Channels& c) {
  std::array<float, kBlock> sums;
  for (std::int64_t t = 0; t < c.length; ++t) {
    gradient_of_sums(x, filters, d_y + t * c.stride, t, c, sums.data());
    float* d_biases = d_filters + c.taps * kBlock;
    for (std::int64_t i = 0; i < c.count; ++i) d_biases[i] += sums[static_cast<std::size_t>(i)];
    for (std::int64_t j = c.first_tap(t); j < c.taps; ++j) {
      const std::int64_t token = t - c.taps + 1 + j;
      const T* row = x + token * c.stride;
      for (std::int64_t i = 0; i < c.count; ++i) {
        const float grad = sums[static_cast<std::size_t>(i)];
        d_x[token * kBlock + i] += grad * filters[j * kBlock + i];
        d_filters[j * kBlock + i] += grad * kernel::load(row[i]);
      }
    }
  }
}

/// Copies filters [C, 1, K] and biases, zeros if undefined, to float32 [blocks][K + 1][kBlock], the order in which
/// the loops read them.
at::Tensor filters_by_block(const at::Tensor& weight, const at::Tensor& bias) {
  const std::int64_t channels = weight.size(0), taps = weight.size(2);
  const std::int64_t blocks = divide_up(channels, kBlock);
  const at::Tensor padded = at::zeros({blocks * kBlock, taps + 1}, weight.options().dtype(at::kFloat));
  const at::Tensor rows = padded.narrow(0, 0, channels);
  rows.narrow(1, 0, taps).copy_(weight.squeeze(1));
  if (bias.defined()) rows.select(1, taps).copy_(bias);
  return padded.view({blocks, kBlock, taps + 1}).transpose(1, 2).contiguous();
}

/// Copies filters by block back to filters [C, 1, K] and biases [C]; the inverse of filters_by_block().
std::pair<at::Tensor, at::Tensor> filters_by_channel(const at::Tensor& by_block, std::int64_t channels) {
  const std::int64_t taps = by_block.size(1) - 1;
  const at::Tensor rows = by_block.transpose(1, 2).reshape({-1, taps + 1}).narrow(0, 0, channels);
  return {rows.narrow(1, 0, taps).unsqueeze(1), rows.select(1, taps)};
}

Channels channels_of_block(const at::Tensor& x, std::int64_t block, std::int64_t taps,
                           const std::int64_t* document, ConvActivation activation) {
  return {x.size(1), x.size(2), std::min(kBlock, x.size(2) - block * kBlock), taps, document, activation};
}

template <class T>
void convolve(const at::Tensor& x, const at::Tensor& filters, ConvActivation activation,
              const Documents& documents, const at::Tensor& y) {
  const std::int64_t blocks = filters.size(0);
  const std::int64_t taps = filters.size(1) - 1;
  const std::int64_t tokens = x.size(1) * x.size(2);
  at::parallel_for(0, x.size(0) * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t block = task % blocks;
      const std::int64_t offset = task / blocks * tokens + block * kBlock;
      forward_block(x.data_ptr<T>() + offset, filters.data_ptr<float>() + block * (taps + 1) * kBlock,
                    y.data_ptr<T>() + offset,
                    channels_of_block(x, block, taps, document_of(documents, task / blocks), activation));
    }
  });
}

/// One thread takes a block of channels through all sequences, so the gradients of its filters need no sum
/// over threads.
template <class T>
void convolve_backward(const at::Tensor& x, const at::Tensor& filters, ConvActivation activation,
                       const Documents& documents, const at::Tensor& d_y, const at::Tensor& d_x,
                       const at::Tensor& d_filters) {
  const std::int64_t taps = filters.size(1) - 1;
  const std::int64_t length = x.size(1);
  at::parallel_for(0, filters.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor scratch = at::empty({length, kBlock}, filters.options());
    for (std::int64_t task = begin * x.size(0); task < end * x.size(0); ++task) {
      const std::int64_t block = task / x.size(0);
      const std::int64_t sequence = task % x.size(0);
      const Channels channels =
          channels_of_block(x, block, taps, document_of(documents, sequence), activation);
      const std::int64_t offset = sequence * length * x.size(2) + block * kBlock;
      scratch.zero_();
      backward_block(x.data_ptr<T>() + offset, filters.data_ptr<float>() + block * (taps + 1) * kBlock,
                     d_y.data_ptr<T>() + offset, scratch.data_ptr<float>(),
                     d_filters.data_ptr<float>() + block * (taps + 1) * kBlock, channels);
      for (std::int64_t t = 0; t < length; ++t)
        kernel::store_row(scratch.data_ptr<float>() + t * kBlock, channels.count,
                          d_x.data_ptr<T>() + offset + t * channels.stride);
    }
  });
}

}  // namespace

void causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 ConvActivation activation, const Documents& documents, const at::Tensor& y) {
  const at::Tensor filters = filters_by_block(weight, bias);
  kernel::dispatch(x, [&]<class T>(T) { convolve<T>(x, filters, activation, documents, y); });
}

std::pair<at::Tensor, at::Tensor> causal_conv_backward(const at::Tensor& x, const at::Tensor& weight,
                                                       const at::Tensor& bias, ConvActivation activation,
                                                       const Documents& documents, const at::Tensor& d_y,
                                                       const at::Tensor& d_x) {
  const at::Tensor filters = filters_by_block(weight, bias);
  const at::Tensor d_filters = at::zeros(filters.sizes(), filters.options());
  kernel::dispatch(
      x, [&]<class T>(T) { convolve_backward<T>(x, filters, activation, documents, d_y, d_x, d_filters); });
  return filters_by_channel(d_filters, x.size(2));
}

}  // namespace sluice::ops::cpu
