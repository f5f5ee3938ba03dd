#include "ops/router.hpp"

#include "ops/kernel.hpp"
#include "ops/node.hpp"
#include "ops/product.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

namespace sluice::ops {
namespace {

/// The k largest of one token's probabilities, best first; of equal ones the lower index. A number that is
/// not one is never larger, so the choice stays valid when the numbers are broken.
void choose_row(const float* probabilities, std::int64_t experts, std::int64_t k, std::int64_t* chosen) {
  for (std::int64_t slot = 0; slot < k; ++slot) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      const bool larger = best < 0 || probabilities[e] > probabilities[best];
      if (larger && std::find(chosen, chosen + slot, e) == chosen + slot) best = e;
    }
    chosen[slot] = best;
  }
}

at::Tensor choose(const at::Tensor& probabilities, std::int64_t k) {
  const std::int64_t experts = probabilities.size(1);
  at::Tensor chosen = at::empty({probabilities.size(0), k}, at::kLong);
  at::parallel_for(0, probabilities.size(0), kernel::grain(experts * k),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t t = begin; t < end; ++t)
                       choose_row(probabilities.data_ptr<float>() + t * experts, experts, k,
                                  chosen.data_ptr<std::int64_t>() + t * k);
                   });
  return chosen;
}

/// Gradient of the probabilities' softmax inputs from that of the weights.
at::Tensor logits_grad(const Routing& routing, const at::Tensor& d_weights, bool normalize,
                       const at::Tensor& probability_grad) {
  at::Tensor d_picked = d_weights;
  if (normalize) {
    const at::Tensor sums = at::gather(routing.probabilities, 1, routing.experts).sum(1, true);
    d_picked = (d_weights - (d_weights * routing.weights).sum(1, true)) / sums;
  }
  at::Tensor grad = at::zeros_like(routing.probabilities).scatter_(1, routing.experts, d_picked);
  if (probability_grad.defined()) grad += probability_grad;
  return routing.probabilities * (grad - (grad * routing.probabilities).sum(1, true));
}

/// Weights of the chosen experts. What autograd must not look at travels in one struct.
struct Weights : node::Function<Weights> {
  struct Inputs {
    Parameter w;
    Routing routing;
    bool normalize;
    at::Tensor probability_grad;
  };

  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Inputs& inputs) {
    const Routing& routing = inputs.routing;
    at::Tensor weights = at::gather(routing.probabilities, 1, routing.experts);
    if (inputs.normalize) weights /= weights.sum(1, true);
    context->save_for_backward({x, routing.experts, routing.probabilities, weights});
    node::keep(context, "w", inputs.w);
    context->saved_data["normalize"] = inputs.normalize;
    context->saved_data["probability_grad"] = inputs.probability_grad;
    return weights;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const Parameter w = node::kept(context, "w");
    const at::Tensor d_logits =
        logits_grad({saved[1], saved[3], saved[2]}, grads[0], context->saved_data["normalize"].toBool(),
                    context->saved_data["probability_grad"].toTensor());
    if (w.grad.defined()) product(w.grad, d_logits.t(), saved[0].to(at::kFloat), Into::kAdd);
    return {at::mm(d_logits, w.value.to(at::kFloat)).to(saved[0].scalar_type()), {}};
  }
};

at::Tensor probabilities_of(const at::Tensor& x, const Parameter& w) {
  const at::NoGradGuard no_grad;
  // Products of bfloat16 numbers are exact in float32, and so are their sums to rounding: nothing is widened.
  const at::Tensor logits = at::empty({x.size(0), w.value.size(0)}, x.options().dtype(at::kFloat));
  product(logits, x, w.value.t());
  return at::softmax(logits, 1);
}

}  // namespace

Routing route(const at::Tensor& x, const Parameter& w, const RouterOptions& options, const at::Tensor& chosen,
              const at::Tensor& probability_grad) {
  SLUICE_ASSERT(options.experts_per_token >= 1 && options.experts_per_token <= w.value.size(0),
                "{} of {} experts per token", options.experts_per_token, w.value.size(0));
  Routing routing;
  routing.probabilities = probabilities_of(x, w);
  routing.experts = chosen.defined() ? chosen : choose(routing.probabilities, options.experts_per_token);
  routing.weights =
      Weights::apply(x, Weights::Inputs{w, routing, options.normalize_weights, probability_grad});
  return routing;
}

}  // namespace sluice::ops
