#include "ops/parameter.hpp"

#include "ops/node.hpp"

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
    if (weight.grad.defined()) weight.grad.add_(grads[0]);
    return {{}, {}};
  }
};

}  // namespace

at::Tensor in_graph(const Parameter& weight, const at::Tensor& anchor) {
  return InGraph::apply(anchor, weight);
}

}  // namespace sluice::ops
