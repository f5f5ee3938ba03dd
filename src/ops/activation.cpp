#include "ops/activation.hpp"

#include "base/error.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty_like.h>

namespace sluice::ops {
namespace {

at::Tensor activate(const at::Tensor& gate, const at::Tensor& up, const Gating& gating) {
  at::Tensor out = at::empty_like(gate);
  on::swiglu_rows(gate, up, out, gating);
  return out;
}

struct SwiGlu : node::Function<SwiGlu> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            bool is_gelu) {
    context->save_for_backward({gate, up});
    context->saved_data["is_gelu"] = is_gelu;
    return activate(gate, up, {.is_gelu = is_gelu});
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    at::Tensor d_gate = at::empty_like(saved[0]);
    at::Tensor d_up = at::empty_like(saved[1]);
    on::swiglu_rows_backward(saved[0], saved[1], grads[0].contiguous(), d_gate, d_up,
                             Gating{.is_gelu = context->saved_data["is_gelu"].toBool()});
    return {d_gate, d_up, {}};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, const Gating& gating) {
  SLUICE_ASSERT(!gating.has_limit() && !gating.interleaved, "only experts clamp their gates");
  SLUICE_ASSERT(gate.dim() == 2 && gate.sizes() == up.sizes(), "gate and up must be matrices of one shape");
  if (!node::wants_graph(gate) && !node::wants_graph(up))
    return activate(gate.contiguous(), up.contiguous(), gating);
  return SwiGlu::apply(gate.contiguous(), up.contiguous(), gating.is_gelu);
}

}  // namespace sluice::ops
