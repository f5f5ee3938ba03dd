#include "ops/linear.hpp"

#include "ops/kernel.hpp"
#include "ops/node.hpp"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

namespace sluice::ops {
namespace {

/// sum += product for rows [begin, end).
SLUICE_VECTOR_CLONES void add_rows(float* sum, std::int64_t sum_stride, const at::BFloat16* product,
                                   std::int64_t begin, std::int64_t end, std::int64_t width) {
  for (std::int64_t row = begin; row < end; ++row) {
    float* target = sum + row * sum_stride;
    const at::BFloat16* source = product + row * width;
    for (std::int64_t i = 0; i < width; ++i) target[i] += kernel::load(source[i]);
  }
}

/// Up to this many rows a product costs less than writing it out in bfloat16 and adding it, so it is made in
/// float32 and straight in its place.
constexpr std::int64_t kFewRows = 64;

/// Elements of a product of bfloat16 that exist at once: 8 MiB.
constexpr std::int64_t kBlockElements = 4 << 20;

struct Linear : node::Function<Linear> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Parameter& w) {
    context->save_for_backward({x});
    node::keep(context, "w", w);
    return at::linear(x, w.value);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const Parameter w = node::kept(context, "w");
    const at::Tensor d_y = grads[0].contiguous();
    if (w.grad.defined()) add_transposed_product(w.grad, d_y, context->get_saved_variables()[0]);
    return {at::mm(d_y, w.value), {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const Parameter& w) {
  SLUICE_ASSERT(x.dim() == 2 && w.value.dim() == 2 && x.size(1) == w.value.size(1),
                "a product of rows of {} with a weight of {} columns", x.size(-1), w.value.size(-1));
  // oneDNN's fast kernels take dense matrices alone.
  return Linear::apply(x.contiguous(), w);
}

void add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == at::kFloat) {
    at::Tensor target = sum;
    target.addmm_(a, b);
    return;
  }
  const at::Tensor product = at::mm(a, b);
  const std::int64_t width = product.size(1);
  at::parallel_for(0, product.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
    add_rows(sum.data_ptr<float>(), sum.stride(0), product.data_ptr<at::BFloat16>(), begin, end, width);
  });
}

void add_transposed_product(const at::Tensor& grad, const at::Tensor& a, const at::Tensor& b) {
  if (a.size(0) <= kFewRows) return add_product(grad, a.to(at::kFloat).t(), b.to(at::kFloat));
  const std::int64_t rows = a.size(1);
  const std::int64_t block = std::max<std::int64_t>(16, kBlockElements / b.size(1));
  if (a.scalar_type() == at::kFloat || rows <= block) return add_product(grad, a.t(), b);
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    add_product(grad.narrow(0, begin, count), a.narrow(1, begin, count).contiguous().t(), b);
  }
}

}  // namespace sluice::ops
