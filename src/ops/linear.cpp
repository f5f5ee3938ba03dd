#include "ops/linear.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/adapters/lora_product.hpp"
#include "ops/experts/stored_products.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/node.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace sluice::ops {
namespace {

trace::MatrixSize matrix_size(const Parameter& w) { return {w.value.size(0), w.value.size(1)}; }

struct Linear : node::Function<Linear> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Parameter& w,
                            Purpose purpose, Uses uses) {
    context->save_for_backward({x});
    node::keep(context, "w", w);
    if (purpose == Purpose::kGraph) return at::zeros({x.size(0), w.value.size(0)}, x.options());
    return ops::matmul_transposed(x, w, uses);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const Parameter w = node::kept(context, "w");
    const trace::Span span(trace::Kind::kOperation, "linear backward", matrix_size(w));
    const at::Tensor d_y = grads[0].contiguous();
    if (w.grad.defined()) ops::matmul(w.grad, d_y.t(), context->get_saved_variables()[0], into_gradient(w));
    return {ops::matmul(d_y, matrix_of(w)), {}, {}, {}};
  }
};

/// Linear layer with a LoRA adapter. Backward recomputes the small products, so that only the input is kept.
struct LoraLinear : node::Function<LoraLinear> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Weight& w,
                            Purpose purpose, Uses uses) {
    const DropoutDraw draw = dropout_draw(*w.lora);
    context->save_for_backward({x});
    node::keep(context, "w", w);
    node::keep(context, "draw", draw);
    if (purpose == Purpose::kGraph) return at::zeros({x.size(0), w.base.value.size(0)}, x.options());
    at::Tensor y = ops::matmul_transposed(x, w.base, uses);
    LoraProduct(*w.lora).add_to(y, with_dropout(x, draw));
    return y;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const Weight w = node::kept_weight(context, "w");
    const trace::Span span(trace::Kind::kOperation, "linear backward", matrix_size(w.base));
    const DropoutDraw draw = node::kept_draw(context, "draw");
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor d_y = grads[0].contiguous();
    const LoraProduct lora(*w.lora);
    const at::Tensor d_reduced = lora.reduced_gradient(d_y);
    lora.accumulate_gradients(with_dropout(x, draw), d_y, d_reduced);
    at::Tensor d_x = ops::matmul(d_y, matrix_of(w.base));
    if (draw.drops()) {
      const at::Tensor d_dropped = at::zeros_like(x);
      lora.add_input_gradient(d_reduced, d_dropped);
      d_x.add_(with_dropout(d_dropped, draw));
    } else {
      lora.add_input_gradient(d_reduced, d_x);
    }
    return {d_x, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const Weight& w, Purpose purpose) {
  const trace::Span span(trace::Kind::kOperation, "linear", matrix_size(w.base));
  const at::Tensor& weight = w.base.value;
  SLUICE_ASSERT(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1),
                "rows of {} elements do not fit a weight of {} columns", x.size(-1), weight.size(-1));
  // oneDNN's fast kernels need dense matrices.
  const at::Tensor rows = x.contiguous();
  const bool in_graph = node::wants_graph(x);
  const Uses uses = in_graph ? Uses::kAgain : Uses::kOnce;
  if (w.lora) return LoraLinear::apply(rows, w, purpose, uses);
  if (purpose == Purpose::kOutput && !in_graph) return ops::matmul_transposed(rows, w.base, uses);
  return Linear::apply(rows, w.base, purpose, uses);
}

}  // namespace sluice::ops
