#include "ops/linear.hpp"

#include "base/error.hpp"
#include "ops/matmul.hpp"
#include "ops/node.hpp"

#include <ATen/ops/zeros.h>

namespace sluice::ops {
namespace {

struct Linear : node::Function<Linear> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Parameter& w,
                            Purpose purpose) {
    context->save_for_backward({x});
    node::keep(context, "w", w);
    if (purpose == Purpose::kGraph) return at::zeros({x.size(0), w.value.size(0)}, x.options());
    return ops::matmul(x, w.value.t());
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const Parameter w = node::kept(context, "w");
    const at::Tensor d_y = grads[0].contiguous();
    if (w.grad.defined()) ops::matmul(w.grad, d_y.t(), context->get_saved_variables()[0], into_gradient(w));
    return {ops::matmul(d_y, w.value), {}, {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const Parameter& w, Purpose purpose) {
  SLUICE_ASSERT(x.dim() == 2 && w.value.dim() == 2 && x.size(1) == w.value.size(1),
                "a product of rows of {} with a weight of {} columns", x.size(-1), w.value.size(-1));
  // oneDNN's fast kernels take dense matrices alone.
  const at::Tensor rows = x.contiguous();
  if (purpose == Purpose::kOutput && !node::wants_graph(x)) return ops::matmul(rows, w.value.t());
  return Linear::apply(rows, w, purpose);
}

}  // namespace sluice::ops
