#include "ops/norm.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/processor.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace sluice::ops {
namespace {

struct Normalised {
  at::Tensor rows, scales;
};

Normalised normalise(const at::Tensor& x, const Parameter& weight, double eps, NormKind kind) {
  const Normalised out{at::empty_like(x), at::empty({x.numel() / x.size(-1)}, x.options().dtype(at::kFloat))};
  on::norm_rows(x, weight.value, eps, kind, out.rows, out.scales);
  return out;
}

struct RowNorm : node::Function<RowNorm> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& input, const Parameter& weight,
                            double eps, NormKind kind) {
    const at::Tensor x = input.contiguous();
    const auto [y, scales] = normalise(x, weight, eps, kind);
    context->save_for_backward({x, scales});
    context->saved_data["kind"] = static_cast<std::int64_t>(kind);
    node::keep(context, "weight", weight);
    return y;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "norm backward");
    const auto saved = context->get_saved_variables();
    const at::Tensor d_y = grads[0].contiguous();
    at::Tensor d_x = at::empty_like(saved[0]);
    const auto kind = static_cast<NormKind>(context->saved_data["kind"].toInt());
    const Parameter weight = node::kept(context, "weight");
    on::norm_rows_backward(saved[0], weight.value, kind, saved[1], d_y, d_x,
                           weight.grad.defined() ? gradient_to_add_to(weight) : at::Tensor());
    return {d_x, {}, {}, {}};
  }
};

}  // namespace

at::Tensor row_norm(const at::Tensor& x, const Parameter& weight, double eps, NormKind kind) {
  const trace::Span span(trace::Kind::kOperation, "norm");
  SLUICE_ASSERT(weight.value.is_contiguous() && weight.value.numel() % x.size(-1) == 0 &&
                    x.numel() % weight.value.numel() == 0,
                "a norm weight of {} elements does not fit rows of {}", weight.value.numel(), x.size(-1));
  if (!node::wants_graph(x)) return normalise(x.contiguous(), weight, eps, kind).rows;
  return RowNorm::apply(x, weight, eps, kind);
}

}  // namespace sluice::ops
