// The router, and the rows that go to experts and come back.
#include "ops/device/own_kernels.hpp"
#include "ops/device/processor.hpp"
#include "ops/device/single.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

namespace sluice::ops::device {
namespace {

/// Of x [padded, …], those that are a token's.
at::Tensor own_rows(const at::Tensor& x, const RowBlock& block) { return x.narrow(0, 0, block.count); }

at::Tensor tokens_of(const RowBlock& block, std::int64_t choices) {
  return block.places.div(choices, "floor");
}

/// The weight of each row of a block [count, 1], rounded to `dtype`.
at::Tensor weights_of(const at::Tensor& weights, const RowBlock& block, at::ScalarType dtype) {
  return single(weights.view({-1}).index_select(0, block.places).to(dtype)).unsqueeze(1);
}

}  // namespace

void router_rows(const at::Tensor& logits, Choice choice, bool normalize, const at::Tensor& chosen,
                 const at::Tensor& weights) {
  logits.copy_(at::softmax(logits, 1));
  if (choice == Choice::kMake) choose_experts(logits, chosen);
  const at::Tensor picked = logits.gather(1, chosen);
  weights.copy_(normalize ? picked * picked.sum(1, /*keepdim=*/true).reciprocal_() : picked);
}

void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& chosen,
                          const at::Tensor& weights, bool normalize, const at::Tensor& d_weights,
                          const at::Tensor& probability_grad, const at::Tensor& counted,
                          const at::Tensor& d_logits) {
  at::Tensor grads = at::zeros_like(probabilities);
  if (probability_grad.defined())
    grads.add_(counted.defined() ? counted.unsqueeze(1) * probability_grad : probability_grad);
  at::Tensor picked = d_weights;
  if (normalize)
    picked = (d_weights - (d_weights * weights).sum(1, /*keepdim=*/true)) /
             probabilities.gather(1, chosen).sum(1, /*keepdim=*/true);
  grads.scatter_add_(1, chosen, picked);
  const at::Tensor out = probabilities * (grads - (grads * probabilities).sum(1, /*keepdim=*/true));
  const std::int64_t experts = probabilities.size(1);
  d_logits.narrow(1, 0, experts).copy_(out);
  if (d_logits.size(1) > experts)
    d_logits.narrow(1, experts, experts).copy_(out - single(d_logits.narrow(1, 0, experts)));
}

void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out) {
  own_rows(out, block).copy_(x.index_select(0, tokens_of(block, choices)));
  out.narrow(0, block.count, block.padded - block.count).zero_();
}

void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums) {
  const at::TensorOptions numbers = sums.options().dtype(at::kInt);
  const at::Tensor row_of_slot = at::full({sums.size(0) * choices}, -1, numbers);
  row_of_slot.index_copy_(0, block.places, at::arange(block.count, numbers));
  add_expert_rows(own_rows(rows, block), row_of_slot, choices, weights, sums);
}

void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights) {
  const at::ScalarType dtype = gate.scalar_type();
  const auto rounded = [&](const at::Tensor& x) { return single(x.to(dtype)); };
  const at::Tensor g = single(own_rows(gate, block)), u = single(own_rows(up, block)),
                   d = single(own_rows(d_activation, block)), weight = weights_of(weights, block, dtype);
  const at::Tensor s = at::sigmoid(g), silu = g * s;
  const at::Tensor activation = rounded(silu * u), weighted = rounded(d * weight);
  d_weights.view({-1}).index_copy_(0, block.places, (activation * d).sum(1));
  own_rows(d_activation, block).copy_(activation * weight);
  own_rows(gate, block).copy_(weighted * u * s * (g * (1 - s) + 1));
  own_rows(up, block).copy_(weighted * silu);
}

}  // namespace sluice::ops::device
