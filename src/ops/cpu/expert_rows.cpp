#include "ops/cpu/expert_rows.hpp"

#include "ops/arithmetic/gate.hpp"
#include "ops/cpu/gate_rows.hpp"
#include "ops/cpu/kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice::ops::cpu {
namespace {

/// Backward pass of one row in weighted_swiglu_backward(); returns the gradient of the row's weight. Values
/// that the forward pass rounded are rounded here as well. Conversions have loops of their own: a loop over
/// two element widths is slower.
template <class T, class Gate>
SLUICE_VECTOR_CLONES float weighted_backward_row(T* gate, T* up, T* d_activation, float weight,
                                                 std::int64_t width, Gate form) {
  constexpr std::int64_t kChunk = 256;
  std::array<float, kChunk> gates, ups, grads;
  float *const g = gates.data(), *const u = ups.data(), *const d = grads.data();
  float dot = 0;
  for (std::int64_t begin = 0; begin < width; begin += kChunk) {
    const std::int64_t count = std::min(kChunk, width - begin);
    kernel::load_row(gate + begin, count, g);
    kernel::load_row(up + begin, count, u);
    kernel::load_row(d_activation + begin, count, d);
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < count; ++i) {
      const float cut = form.cut_gate(g[i]), exponent = form.exponent(cut), factor = form.factor(u[i]);
      const float s = kernel::sigmoid(exponent), uncut = cut * s, silu = form.cut_activation(uncut);
      const float activation = kernel::rounded<T>(silu * factor);
      const float weighted = kernel::rounded<T>(d[i] * weight);
      dot += activation * d[i];
      d[i] = activation * weight;
      g[i] = form.through_gate(g[i], uncut,
                               weighted * factor * s * (1.0F + form.growth(cut, exponent) * (1.0F - s)));
      u[i] = form.through_up(u[i], weighted * silu);
    }
    kernel::store_row(g, count, gate + begin);
    kernel::store_row(u, count, up + begin);
    kernel::store_row(d, count, d_activation + begin);
  }
  return dot;
}

template <class T>
SLUICE_VECTOR_CLONES void add_bias(const T* bias, std::int64_t width, T* row) {
  for (std::int64_t i = 0; i < width; ++i)
    row[i] = kernel::store_result<T>(kernel::load(row[i]) + kernel::load(bias[i]));
}

}  // namespace

void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out) {
  const auto row_bytes = static_cast<std::size_t>(x.size(1) * x.element_size());
  const auto* source = static_cast<const std::byte*>(x.data_ptr());
  auto* target = static_cast<std::byte*>(out.data_ptr());
  at::parallel_for(0, block.count, kernel::grain(x.size(1)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      std::memcpy(target + static_cast<std::size_t>(row) * row_bytes,
                  source + static_cast<std::size_t>(block.slots[row] / choices) * row_bytes, row_bytes);
  });
  std::memset(target + static_cast<std::size_t>(block.count) * row_bytes, 0,
              static_cast<std::size_t>(out.size(0) - block.count) * row_bytes);
}

void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums) {
  const std::int64_t width = rows.size(1);
  const float* weight = weights.defined() ? weights.data_ptr<float>() : nullptr;
  float* const sum = sums.data_ptr<float>();
  kernel::dispatch(rows, [&]<class T>(T) {
    const T* const row_data = rows.data_ptr<T>();
    // Threads share the columns, because successive rows may belong to one token.
    at::parallel_for(0, width, kernel::grain(block.count), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < block.count; ++row)
        kernel::add_row(row_data + row * width + begin,
                        weight == nullptr ? 1.0F : kernel::rounded<T>(weight[block.slots[row]]), end - begin,
                        sum + block.slots[row] / choices * width + begin);
    });
  });
}

void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights,
                              const Gating& gating) {
  const std::int64_t width = gate.size(1);
  const float* weight = weights.data_ptr<float>();
  float* d_weight = d_weights.data_ptr<float>();
  kernel::dispatch(gate, [&]<class T>(T) {
    const GateRows<T> gates(gate, up);
    const kernel::Rows<T> grads(d_activation);
    arithmetic::with_gate(gating, [&](auto form) {
      at::parallel_for(0, block.count, kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t slot = block.slots[row];
          float dot = 0;
          gates.change(row, [&](std::int64_t first, std::int64_t count, T* g, T* u) {
            dot += weighted_backward_row(g, u, grads[row] + first, kernel::rounded<T>(weight[slot]), count,
                                         form);
          });
          d_weight[slot] = dot;
        }
      });
    });
  });
}

void add_biases(const at::Tensor& rows, const RowBlock& block, const at::Tensor& biases) {
  const std::int64_t width = rows.size(1);
  kernel::dispatch(rows, [&]<class T>(T) {
    const kernel::Rows<T> sums(rows), of_expert(biases);
    for (const ExpertPart& part : block.parts)
      at::parallel_for(0, part.count, kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          add_bias(of_expert[part.expert], width, sums[part.begin + row]);
      });
  });
}

void bias_gradient(const at::Tensor& d_rows, const RowBlock& block, const ExpertPart& part,
                   const at::Tensor& weights, const at::Tensor& d_bias) {
  const float* const weight = weights.defined() ? weights.data_ptr<float>() : nullptr;
  float* const sum = d_bias.data_ptr<float>();
  kernel::dispatch(d_rows, [&]<class T>(T) {
    const kernel::Rows<T> grads(d_rows);
    // Threads share the columns, so that each sum belongs to one thread.
    at::parallel_for(0, d_rows.size(1), kernel::grain(part.count), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = part.begin; row < part.begin + part.count; ++row)
        kernel::add_row(grads[row] + begin,
                        weight == nullptr ? 1.0F : kernel::rounded<T>(weight[block.slots[row]]), end - begin,
                        sum + begin);
    });
  });
}

void add_bias_products(const at::Tensor& d_rows, const RowBlock& block, const at::Tensor& biases,
                       const at::Tensor& d_weights) {
  const std::int64_t width = d_rows.size(1);
  float* const d_weight = d_weights.data_ptr<float>();
  kernel::dispatch(d_rows, [&]<class T>(T) {
    const kernel::Rows<T> grads(d_rows), of_expert(biases);
    for (const ExpertPart& part : block.parts)
      at::parallel_for(0, part.count, kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = part.begin + begin; row < part.begin + end; ++row)
          d_weight[block.slots[row]] += kernel::dot(grads[row], of_expert[part.expert], width);
      });
  });
}

}  // namespace sluice::ops::cpu
