#include "ops/router.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/adapters/lora_product.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <vector>

namespace sluice::ops {
namespace {

/// A float32 matrix as a sum of terms in the tokens' dtype, two of bfloat16, because products need one dtype.
std::vector<at::Tensor> terms_of(const at::Tensor& matrix, at::ScalarType dtype) {
  if (dtype == at::kFloat) return {matrix};
  const at::Tensor high = matrix.to(dtype);
  return {high, (matrix - high.to(at::kFloat)).to(dtype)};
}

/// Sum of the products of two sums of terms, in float32.
at::Tensor product_of_terms(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  at::Tensor out = at::zeros({a.front().size(0), b.front().size(1)}, a.front().options().dtype(at::kFloat));
  for (const at::Tensor& left : a)
    for (const at::Tensor& right : b) ops::matmul(out, left, right, Into::kAdd);
  return out;
}

void accumulate(const Parameter& to, const std::vector<at::Tensor>& d_out,
                const std::vector<at::Tensor>& inputs) {
  if (!to.grad.defined()) return;
  for (const at::Tensor& term : d_out)
    for (const at::Tensor& input : inputs) ops::matmul(to.grad, term.t(), input, into_gradient(to));
}

/// Product scale * x A^T of a LoRA adapter, as terms, in float32 like the router's own products.
std::vector<at::Tensor> reduced_terms(const at::Tensor& x, const Lora& lora) {
  return terms_of(product_of_terms({x}, {lora.a.value.t()}).mul_(lora.scale), x.scalar_type());
}

/// Accumulates the gradients of A and B from the terms of the logits' gradient; returns the terms of the
/// gradient of x A^T.
std::vector<at::Tensor> lora_backward(const at::Tensor& x, const Lora& lora,
                                      const std::vector<at::Tensor>& d_logits) {
  accumulate(lora.b, d_logits, reduced_terms(x, lora));
  std::vector<at::Tensor> d_reduced =
      terms_of(product_of_terms(d_logits, {lora.b.value}).mul_(lora.scale), x.scalar_type());
  accumulate(lora.a, d_reduced, {x});
  return d_reduced;
}

/// Adds d_logits^T x to w's gradient, or to the gradients of its adapter; returns the gradient of x. d_logits
/// may be several terms side by side.
at::Tensor products_backward(const at::Tensor& x, const Weight& w, const at::Tensor& d_logits) {
  const std::int64_t experts = w.base.value.size(0);
  std::vector<at::Tensor> terms, matrices;
  for (std::int64_t begin = 0; begin < d_logits.size(1); begin += experts) {
    terms.push_back(d_logits.slice(1, begin, begin + experts));
    matrices.push_back(w.base.value);
  }
  accumulate(w.base, terms, {x});
  if (!w.lora) return ops::matmul(d_logits, at::cat(matrices, 0));
  std::vector<at::Tensor> all{d_logits};
  for (const at::Tensor& term : lora_backward(x, *w.lora, terms)) {
    all.push_back(term);
    matrices.push_back(w.lora->a.value);
  }
  return ops::matmul(at::cat(all, 1), at::cat(matrices, 0));
}

/// Adds the sum of d_logits over tokens and terms to the bias's gradient.
void bring_bias(const Parameter& bias, const at::Tensor& d_logits) {
  if (!bias.grad.defined()) return;
  const at::Tensor sums = d_logits.sum(0, /*keepdim=*/false, at::kFloat);
  gradient_to_add_to(bias).add_(sums.view({-1, bias.value.size(0)}).sum(0));
}

/// The gradient of bounded logits [T, terms x E], as terms side by side, turned in place into that of the products
/// that they are made of.
void pass_bound(const at::Tensor& d_logits, const at::Tensor& slopes) {
  const std::int64_t experts = slopes.size(1);
  const at::Tensor sum = d_logits.view({d_logits.size(0), -1, experts}).sum(1, /*keepdim=*/false, at::kFloat);
  d_logits.copy_(at::cat(terms_of(sum * slopes, d_logits.scalar_type()), 1));
}

/// Keeps the options that backward needs, which do not include those of the choice.
void keep(node::AutogradContext* context, const RouterOptions& options) {
  context->saved_data["normalize"] = options.normalize_weights;
  context->saved_data["score"] = static_cast<std::int64_t>(options.score);
  context->saved_data["epsilon"] = static_cast<double>(options.epsilon);
  context->saved_data["least_sum"] = static_cast<double>(options.least_sum);
  context->saved_data["scale"] = static_cast<double>(options.scale);
}
RouterOptions kept_options(node::AutogradContext* context) {
  return {.normalize_weights = context->saved_data["normalize"].toBool(),
          .score = static_cast<RouterScore>(context->saved_data["score"].toInt()),
          .epsilon = static_cast<float>(context->saved_data["epsilon"].toDouble()),
          .least_sum = static_cast<float>(context->saved_data["least_sum"].toDouble()),
          .scale = static_cast<float>(context->saved_data["scale"].toDouble())};
}

/// Graph node for the weights of the chosen experts. Arguments that autograd must not look at are in one
/// struct.
struct Weights : node::Function<Weights> {
  struct Inputs {
    Weight w;
    Parameter bias;
    Routing routing;
    RouterOptions options;
    RouterLossGrad losses;
  };

  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const Inputs& inputs) {
    const Routing& routing = inputs.routing;
    context->save_for_backward({x, routing.experts, routing.probabilities, routing.weights});
    node::keep(context, "w", inputs.w);
    node::keep(context, "bias", inputs.bias);
    keep(context, inputs.options);
    context->saved_data["logits"] = routing.logits;
    context->saved_data["slopes"] = routing.slopes;
    context->saved_data["of_token"] = inputs.losses.of_token;
    context->saved_data["counted"] = inputs.losses.counted;
    context->saved_data["z_scale"] = static_cast<double>(inputs.losses.z_scale);
    return routing.weights;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "router backward");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &chosen = saved[1], &probabilities = saved[2], &weights = saved[3];
    const std::int64_t terms = x.scalar_type() == at::kBFloat16 ? 2 : 1;
    const at::Tensor d_logits = at::empty({x.size(0), terms * probabilities.size(1)}, x.options());
    const RouterLossGrad losses{context->saved_data["of_token"].toTensor(),
                                context->saved_data["counted"].toTensor(),
                                static_cast<float>(context->saved_data["z_scale"].toDouble())};
    on::router_rows_backward(probabilities, context->saved_data["logits"].toTensor(), chosen, weights,
                             kept_options(context), grads[0].contiguous(), losses, d_logits);
    const at::Tensor slopes = context->saved_data["slopes"].toTensor();
    if (slopes.defined()) pass_bound(d_logits, slopes);
    bring_bias(node::kept(context, "bias"), d_logits);
    return {products_backward(x, node::kept_weight(context, "w"), d_logits), {}};
  }
};

/// Computes a whole routing, without a graph.
Routing decide(const at::Tensor& x, const Weight& w, const Parameter& bias, const RouterOptions& options,
               const at::Tensor& chosen, bool keeps_logits) {
  const at::NoGradGuard no_grad;
  Routing routing;
  // Products of bfloat16 numbers and their sums are exact in float32 up to rounding, so nothing is converted
  // first.
  routing.probabilities = at::empty({x.size(0), w.base.value.size(0)}, x.options().dtype(at::kFloat));
  ops::matmul(routing.probabilities, x, w.base.value.t());
  if (w.lora)
    for (const at::Tensor& term : reduced_terms(x, *w.lora))
      ops::matmul(routing.probabilities, term, w.lora->b.value.t(), Into::kAdd);
  if (bias.value.defined()) routing.probabilities.add_(bias.value);
  if (options.logit_cap > 0) {
    const at::Tensor share = routing.probabilities.div_(options.logit_cap).tanh_();
    routing.slopes = 1 - share * share;
    share.mul_(options.logit_cap);
  }
  if (keeps_logits) routing.logits = routing.probabilities.clone();
  const std::array<std::int64_t, 2> choices{x.size(0), options.experts_per_token};
  routing.experts = chosen.defined() ? chosen : at::empty(choices, x.options().dtype(at::kLong));
  routing.weights = at::empty(choices, routing.probabilities.options());
  on::router_rows(routing.probabilities, chosen.defined() ? Choice::kRepeat : Choice::kMake, options,
                  routing.experts, routing.weights);
  return routing;
}

}  // namespace

Routing route(const at::Tensor& x, const Weight& w, const RouterOptions& options, const at::Tensor& chosen,
              const RouterLossGrad& losses, const Parameter& bias) {
  const trace::Span span(trace::Kind::kOperation, "router");
  SLUICE_ASSERT(options.experts_per_token >= 1 && options.experts_per_token <= w.base.value.size(0),
                "{} experts per token cannot be chosen of {}", options.experts_per_token,
                w.base.value.size(0));
  SLUICE_ASSERT(
      w.base.value.size(0) % options.groups == 0 && options.chosen_groups <= options.groups &&
          (options.scores_per_group == 1 || options.scores_per_group == 2) &&
          options.experts_per_token <= w.base.value.size(0) / options.groups * options.chosen_groups,
      "{} groups of experts cannot be chosen of {}", options.chosen_groups, options.groups);
  Routing routing = decide(x, w, bias, options, chosen, losses.z_scale != 0);
  if (node::wants_graph(x))
    routing.weights = Weights::apply(x, Weights::Inputs{w, bias, routing, options, losses});
  return routing;
}

}  // namespace sluice::ops
