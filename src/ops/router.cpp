#include "ops/router.hpp"

#include "base/error.hpp"
#include "ops/matmul.hpp"
#include "ops/node.hpp"
#include "ops/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <array>
#include <vector>

namespace sluice::ops {
namespace {

/// d_logits^T x to w.grad, and the gradient of x. Products take one dtype, so there may be several terms of
/// d_logits side by side.
at::Tensor products_backward(const at::Tensor& x, const Parameter& w, const at::Tensor& d_logits) {
  const std::int64_t experts = w.value.size(0);
  const std::int64_t terms = d_logits.size(1) / experts;
  if (w.grad.defined())
    for (std::int64_t term = 0; term < terms; ++term)
      ops::matmul(w.grad, d_logits.slice(1, term * experts, (term + 1) * experts).t(), x, into_gradient(w));
  return ops::matmul(d_logits, at::cat(std::vector<at::Tensor>(static_cast<std::size_t>(terms), w.value), 0));
}

/// Weights of the chosen experts. What autograd must not look at travels in one struct.
struct Weights : node::Function<Weights> {
  struct Inputs {
    Parameter w;
    Routing routing;
    bool normalize;
    BalanceGrad balance;
  };

  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Inputs& inputs) {
    const Routing& routing = inputs.routing;
    context->save_for_backward({x, routing.experts, routing.probabilities, routing.weights});
    node::keep(context, "w", inputs.w);
    context->saved_data["normalize"] = inputs.normalize;
    context->saved_data["probability_grad"] = inputs.balance.of_token;
    context->saved_data["counted"] = inputs.balance.counted;
    return routing.weights;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &chosen = saved[1], &probabilities = saved[2], &weights = saved[3];
    const std::int64_t terms = x.scalar_type() == at::kBFloat16 ? 2 : 1;
    const at::Tensor d_logits = at::empty({x.size(0), terms * probabilities.size(1)}, x.options());
    on::router_rows_backward(probabilities, chosen, weights, context->saved_data["normalize"].toBool(),
                              grads[0].contiguous(), context->saved_data["probability_grad"].toTensor(),
                              context->saved_data["counted"].toTensor(), d_logits);
    return {products_backward(x, node::kept(context, "w"), d_logits), {}};
  }
};

/// All of a routing, without its graph.
Routing decide(const at::Tensor& x, const Parameter& w, const RouterOptions& options,
               const at::Tensor& chosen) {
  const at::NoGradGuard no_grad;
  Routing routing;
  // Products of bfloat16 numbers are exact in float32, and so are their sums to rounding: nothing is widened.
  routing.probabilities = at::empty({x.size(0), w.value.size(0)}, x.options().dtype(at::kFloat));
  ops::matmul(routing.probabilities, x, w.value.t());
  const std::array<std::int64_t, 2> choices{x.size(0), options.experts_per_token};
  routing.experts = chosen.defined() ? chosen : at::empty(choices, x.options().dtype(at::kLong));
  routing.weights = at::empty(choices, routing.probabilities.options());
  on::router_rows(routing.probabilities, chosen.defined() ? Choice::kRepeat : Choice::kMake,
                  options.normalize_weights, routing.experts, routing.weights);
  return routing;
}

}  // namespace

Routing route(const at::Tensor& x, const Parameter& w, const RouterOptions& options, const at::Tensor& chosen,
              const BalanceGrad& balance) {
  SLUICE_ASSERT(options.experts_per_token >= 1 && options.experts_per_token <= w.value.size(0),
                "{} of {} experts per token", options.experts_per_token, w.value.size(0));
  Routing routing = decide(x, w, options, chosen);
  routing.weights = Weights::apply(x, Weights::Inputs{w, routing, options.normalize_weights, balance});
  return routing;
}

}  // namespace sluice::ops
