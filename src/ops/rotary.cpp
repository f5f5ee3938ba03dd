#include "ops/rotary.hpp"

#include "ops/cpu/kernel.hpp"
#include "ops/node.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/outer.h>

namespace sluice::ops {
namespace {

/// Rotates the heads of one position; `direction` is 1, or -1 for the way back.
template <class T>
SLUICE_VECTOR_CLONES void rotate_position(const T* x, const float* cos, const float* sin, float direction,
                                          T* y, std::int64_t heads, std::int64_t width, std::int64_t half) {
  for (std::int64_t head = 0; head < heads; ++head, x += width, y += width) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float c = kernel::rounded<T>(cos[i]);
      const float s = direction * kernel::rounded<T>(sin[i]);
      const float first = kernel::load(x[i]);
      const float second = kernel::load(x[half + i]);
      y[i] = kernel::store_result<T>(kernel::rounded<T>(first * c) - kernel::rounded<T>(second * s));
      y[half + i] = kernel::store_result<T>(kernel::rounded<T>(second * c) + kernel::rounded<T>(first * s));
    }
    std::copy(x + 2 * half, x + width, y + 2 * half);
  }
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table, float direction) {
  const std::int64_t length = x.size(1);
  const std::int64_t heads = x.size(2);
  const std::int64_t width = x.size(3);
  const std::int64_t half = table.cos.size(1);
  at::Tensor y = at::empty_like(x);
  const float* cos = table.cos.data_ptr<float>();
  const float* sin = table.sin.data_ptr<float>();
  kernel::dispatch(x, [&]<class T>(T) {
    const auto positions = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int64_t angle = (p % length) * half;
        const std::int64_t offset = p * heads * width;
        rotate_position(x.data_ptr<T>() + offset, cos + angle, sin + angle, direction,
                        y.data_ptr<T>() + offset, heads, width, half);
      }
    };
    at::parallel_for(0, x.size(0) * length, kernel::grain(heads * width), positions);
  });
  return y;
}

struct Rotary : node::Function<Rotary> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const RotaryTable& table) {
    context->saved_data["cos"] = table.cos;
    context->saved_data["sin"] = table.sin;
    return rotate(x, table, 1.0F);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const RotaryTable table{context->saved_data["cos"].toTensor(), context->saved_data["sin"].toTensor()};
    return {rotate(grads[0].contiguous(), table, -1.0F), {}};
  }
};

}  // namespace

RotaryTable make_rotary_table(std::int64_t length, const at::Tensor& frequencies, double magnitude) {
  const at::NoGradGuard no_grad;
  const at::Tensor angles = at::outer(at::arange(length, at::kLong).to(at::kFloat), frequencies);
  return {angles.cos() * magnitude, angles.sin() * magnitude};
}

at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table) {
  SLUICE_ASSERT(x.dim() == 4 && x.size(1) <= table.cos.size(0) && x.size(3) >= 2 * table.cos.size(1),
                "a rotary table of {} positions and {} angles for {} positions and heads of {}",
                table.cos.size(0), table.cos.size(1), x.size(1), x.size(3));
  return Rotary::apply(x.contiguous(), table);
}

}  // namespace sluice::ops
