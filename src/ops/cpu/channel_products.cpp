#include "ops/channel_products.hpp"

#include "base/error.hpp"
#include "ops/cpu/channel_decays.hpp"
#include "ops/runtime/node.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace sluice::ops {
namespace {

struct ChannelProductsNode : node::Function<ChannelProductsNode> {
  static node::variable_list forward(node::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& log_decay) {
    const cpu::ChannelInputs inputs{q.contiguous(), k.contiguous(), log_decay.contiguous()};
    const auto empty = [&] { return at::empty({q.size(0), q.size(1), q.size(2), q.size(2)}, q.options()); };
    const ChannelProducts products{empty(), empty()};
    cpu::channel_products(inputs, products);
    context->save_for_backward({inputs.q, inputs.k, inputs.log_decay});
    return {products.of_queries, products.of_keys};
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& d_products) {
    const node::variable_list kept = context->get_saved_variables();
    const auto empty = [&] { return at::empty_like(kept[0]); };
    const cpu::ChannelInputs grads{empty(), empty(), empty()};
    cpu::channel_products_backward({kept[0], kept[1], kept[2]},
                                   {d_products[0].contiguous(), d_products[1].contiguous()}, grads);
    return {grads.q, grads.k, grads.log_decay};
  }
};

}  // namespace

ChannelProducts channel_products(const at::Tensor& q, const at::Tensor& k, const at::Tensor& log_decay) {
  SLUICE_ASSERT(q.is_cpu(), "decays by channel are computed by the processor alone");
  const node::variable_list products = ChannelProductsNode::apply(q, k, log_decay);
  return {products[0], products[1]};
}

}  // namespace sluice::ops
