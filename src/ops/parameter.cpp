#include "ops/parameter.hpp"

#include "ops/runtime/node.hpp"

namespace sluice::ops {
namespace {

struct InGraph : node::Function<InGraph> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& /*anchor*/,
                            const Parameter& weight) {
    node::keep(context, "weight", weight);
    return weight.value.clone();
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const Parameter weight = node::kept(context, "weight");
    if (weight.grad.defined()) gradient_to_add_to(weight).add_(grads[0]);
    return {{}, {}};
  }
};

}  // namespace

at::Tensor gradient_to_add_to(const Parameter& weight) {
  at::Tensor grad = weight.grad;
  if (!adds_to_gradient(weight)) grad.zero_();
  return grad;
}

void clear_unwritten_gradient(const Parameter& weight) {
  const std::int64_t parts = weight.written->size();
  for (std::int64_t part = 0; part < parts; ++part) clear_unwritten_gradient(weight, part);
}

void clear_unwritten_gradient(const Parameter& weight, std::int64_t part) {
  if (!weight.written->add(part)) (weight.written->size() == 1 ? weight.grad : weight.grad[part]).zero_();
}

at::Tensor in_graph(const Parameter& weight, const at::Tensor& anchor) {
  return InGraph::apply(anchor, weight);
}

}  // namespace sluice::ops
