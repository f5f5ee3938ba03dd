#include "ops/causal_conv.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

namespace sluice::ops {
namespace {

struct CausalConv : node::Function<CausalConv> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Parameter& weight,
                            ConvActivation activation, const Documents& documents, const Parameter& bias) {
    at::Tensor y = at::empty_like(x);
    on::causal_conv(x, weight.value, bias.value, activation, documents, y);
    context->save_for_backward({x});
    node::keep(context, "weight", weight);
    node::keep(context, "bias", bias);
    node::keep(context, documents);
    context->saved_data["activation"] = static_cast<std::int64_t>(activation);
    return y;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "convolution backward");
    const at::Tensor x = context->get_saved_variables()[0];
    const Parameter weight = node::kept(context, "weight"), bias = node::kept(context, "bias");
    const Documents documents = node::kept_documents(context);
    const auto activation = static_cast<ConvActivation>(context->saved_data["activation"].toInt());
    const at::Tensor d_y = grads[0].contiguous();
    at::Tensor d_x = at::empty_like(x);
    const auto [d_weight, d_bias] =
        on::causal_conv_backward(x, weight.value, bias.value, activation, documents, d_y, d_x);
    if (weight.grad.defined()) gradient_to_add_to(weight).add_(d_weight);
    if (bias.grad.defined()) gradient_to_add_to(bias).add_(d_bias);
    return {d_x, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor causal_conv(const at::Tensor& x, const Parameter& weight, ConvActivation activation,
                       const Documents& documents, const Parameter& bias) {
  const trace::Span span(trace::Kind::kOperation, "convolution");
  SLUICE_ASSERT(x.dim() == 3 && weight.value.dim() == 3 && weight.value.size(0) == x.size(2),
                "filters for {} channels do not fit an input of {} channels", weight.value.size(0),
                x.size(-1));
  return CausalConv::apply(x.contiguous(), weight, activation, documents, bias);
}

at::Tensor continue_causal_conv(const at::Tensor& x, const Parameter& weight, ConvActivation activation,
                                at::Tensor& window, const Parameter& bias) {
  const at::NoGradGuard no_grad;
  const std::int64_t before = window.size(1), count = x.size(1);
  SLUICE_ASSERT(before == weight.value.size(2) - 1, "{} earlier inputs do not fit filters of {} taps", before,
                weight.value.size(2));
  const at::Tensor all = at::cat({window, x}, 1);
  window = all.narrow(1, count, before).contiguous();
  return causal_conv(all, weight, activation, {}, bias).narrow(1, before, count);
}

}  // namespace sluice::ops
