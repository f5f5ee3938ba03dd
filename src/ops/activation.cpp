#include "ops/activation.hpp"

#include "base/error.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty_like.h>

#include <cstdint>

namespace sluice::ops {
namespace {

constexpr Gating kSquaredRelu{.activation = Activation::kSquaredRelu};

at::Tensor activate(const at::Tensor& gate, const at::Tensor& up, const Gating& gating) {
  at::Tensor out = at::empty_like(gate);
  on::swiglu_rows(gate, up, out, gating);
  return out;
}

struct SwiGlu : node::Function<SwiGlu> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const Gating& gating) {
    context->save_for_backward({gate, up});
    node::keep(context, gating);
    return activate(gate, up, gating);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    at::Tensor d_gate = at::empty_like(saved[0]);
    at::Tensor d_up = at::empty_like(saved[1]);
    on::swiglu_rows_backward(saved[0], saved[1], grads[0].contiguous(), d_gate, d_up,
                             node::kept_gating(context));
    return {d_gate, d_up, {}};
  }
};

struct SquaredRelu : node::Function<SquaredRelu> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& up) {
    context->save_for_backward({up});
    return activate(up, up, kSquaredRelu);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const at::Tensor up = context->get_saved_variables()[0];
    at::Tensor d_up = at::empty_like(up);
    on::swiglu_rows_backward(up, up, grads[0].contiguous(), d_up, d_up, kSquaredRelu);
    return {d_up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, const Gating& gating) {
  SLUICE_ASSERT(gating.has_gate() && !gating.interleaved, "gates must lie in a matrix of their own");
  SLUICE_ASSERT(gate.dim() == 2 && gate.sizes() == up.sizes(), "gate and up must be matrices of one shape");
  if (!node::wants_graph(gate) && !node::wants_graph(up))
    return activate(gate.contiguous(), up.contiguous(), gating);
  return SwiGlu::apply(gate.contiguous(), up.contiguous(), gating);
}

at::Tensor squared_relu(const at::Tensor& up) {
  SLUICE_ASSERT(up.dim() == 2, "up must be a matrix");
  if (!node::wants_graph(up)) return activate(up.contiguous(), up.contiguous(), kSquaredRelu);
  return SquaredRelu::apply(up.contiguous());
}

}  // namespace sluice::ops
