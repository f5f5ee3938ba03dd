#include "ops/cpu/rotary_rows.hpp"

#include "ops/cpu/kernel.hpp"

namespace sluice::ops::cpu {
namespace {

/// Rotates the heads of one position; `direction` is 1 forward, -1 in the backward pass.
template <class T, RotaryLayout layout>
SLUICE_VECTOR_CLONES void rotate_position(const T* x, const float* cos, const float* sin, float direction,
                                          T* y, std::int64_t heads, std::int64_t width, std::int64_t half) {
  constexpr bool kIsInterleaved = layout == RotaryLayout::kInterleaved;
  const std::int64_t step = kIsInterleaved ? 2 : 1, apart = kIsInterleaved ? 1 : half;
  for (std::int64_t head = 0; head < heads; ++head, x += width, y += width) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float c = kernel::rounded<T>(cos[i]);
      const float s = direction * kernel::rounded<T>(sin[i]);
      const std::int64_t at = step * i;
      const float first = kernel::load(x[at]);
      const float second = kernel::load(x[at + apart]);
      y[at] = kernel::store_result<T>(kernel::rounded<T>(first * c) - kernel::rounded<T>(second * s));
      y[at + apart] = kernel::store_result<T>(kernel::rounded<T>(second * c) + kernel::rounded<T>(first * s));
    }
    std::copy(x + 2 * half, x + width, y + 2 * half);
  }
}

}  // namespace

void rotate_heads(const at::Tensor& x, const RotaryTable& table, Turn turn, const at::Tensor& y) {
  const std::int64_t length = x.size(1);
  const std::int64_t heads = x.size(2);
  const std::int64_t width = x.size(3);
  const std::int64_t half = table.cos.size(1);
  const float direction = turn == Turn::kForward ? 1.0F : -1.0F;
  const float* cos = table.cos.data_ptr<float>();
  const float* sin = table.sin.data_ptr<float>();
  kernel::dispatch(x, [&]<class T>(T) {
    const auto rotate = table.layout == RotaryLayout::kInterleaved
                            ? rotate_position<T, RotaryLayout::kInterleaved>
                            : rotate_position<T, RotaryLayout::kHalves>;
    const auto positions = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t angle = (p % length) * half;
        const std::int64_t offset = p * heads * width;
        rotate(x.data_ptr<T>() + offset, cos + angle, sin + angle, direction, y.data_ptr<T>() + offset, heads,
               width, half);
      }
    };
    at::parallel_for(0, x.size(0) * length, kernel::grain(heads * width), positions);
  });
}

}  // namespace sluice::ops::cpu
