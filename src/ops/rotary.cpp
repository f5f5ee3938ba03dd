#include "ops/rotary.hpp"

#include "base/error.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/outer.h>

namespace sluice::ops {
namespace {

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table, Turn turn) {
  at::Tensor y = at::empty_like(x);
  on::rotate_heads(x, table, turn, y);
  return y;
}

struct Rotary : node::Function<Rotary> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const RotaryTable& table) {
    context->saved_data["cos"] = table.cos;
    context->saved_data["sin"] = table.sin;
    context->saved_data["layout"] = static_cast<std::int64_t>(table.layout);
    return rotate(x, table, Turn::kForward);
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const RotaryTable table{context->saved_data["cos"].toTensor(), context->saved_data["sin"].toTensor(),
                            static_cast<RotaryLayout>(context->saved_data["layout"].toInt())};
    return {rotate(grads[0].contiguous(), table, Turn::kBack), {}};
  }
};

}  // namespace

RotaryTable make_rotary_table(std::int64_t length, const at::Tensor& frequencies, double magnitude,
                              RotaryLayout layout, at::Device device) {
  const at::NoGradGuard no_grad;
  const at::Tensor angles = at::outer(at::arange(length, at::kLong).to(at::kFloat), frequencies);
  return {(angles.cos() * magnitude).to(device), (angles.sin() * magnitude).to(device), layout};
}

at::Tensor apply_rotary(const at::Tensor& x, const RotaryTable& table) {
  SLUICE_ASSERT(x.dim() == 4 && x.size(1) <= table.cos.size(0) && x.size(3) >= 2 * table.cos.size(1),
                "a rotary table of {} positions and {} angles does not fit {} positions and heads of "
                "{} entries",
                table.cos.size(0), table.cos.size(1), x.size(1), x.size(3));
  if (!node::wants_graph(x)) return rotate(x.contiguous(), table, Turn::kForward);
  return Rotary::apply(x.contiguous(), table);
}

RotaryTable rotary_rows(const RotaryTable& table, const at::Tensor& positions) {
  return {at::index_select(table.cos, 0, positions), at::index_select(table.sin, 0, positions), table.layout};
}

}  // namespace sluice::ops
