// The router on a device, and the rows that go to experts and come back.
#include "ops/device/gate.hpp"
#include "ops/device/own_kernels.hpp"
#include "ops/device/processor.hpp"
#include "ops/device/single.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

namespace sluice::ops::device {
namespace {

/// Returns the rows of x [padded, …] that are tokens.
at::Tensor own_rows(const at::Tensor& x, const RowBlock& block) { return x.narrow(0, 0, block.count); }

at::Tensor tokens_of(const RowBlock& block, std::int64_t choices) {
  return block.places.div(choices, "floor");
}

/// Returns the weight of each row of a block [count, 1], rounded to `dtype`.
at::Tensor weights_of(const at::Tensor& weights, const RowBlock& block, at::ScalarType dtype) {
  return single(weights.view({-1}).index_select(0, block.places).to(dtype)).unsqueeze(1);
}

/// Returns the expert of each row of a block [count], int64.
at::Tensor experts_of(const RowBlock& block) {
  const at::Tensor rows = at::arange(block.count, block.ends.options());
  return at::searchsorted(block.ends, rows, /*out_int32=*/false, /*right=*/true);
}

constexpr double kOut = -std::numeric_limits<double>::infinity();

/// Returns the score of each group of experts, [T, groups], from scores [T, E]; NaN ranks after all numbers.
at::Tensor group_scores(const at::Tensor& scores, const RouterOptions& options) {
  const at::Tensor grouped = scores.view({-1, scores.size(1) / options.groups});
  const at::Tensor best =
      at::empty({grouped.size(0), options.scores_per_group}, scores.options().dtype(at::kLong));
  choose_experts(grouped, best);
  const at::Tensor largest = grouped.gather(1, best), first = largest.select(1, 0);
  const at::Tensor second = largest.select(1, options.scores_per_group - 1);
  const at::Tensor sums = options.scores_per_group == 1 ? first : first + second;
  return at::where(second.ne(second), first, sums).view({scores.size(0), options.groups});
}

/// Returns scores [T, E] with -infinity for the experts of groups that are not chosen, as the processor's
/// loop leaves them out.
at::Tensor scores_in_chosen_groups(const at::Tensor& scores, const RouterOptions& options) {
  const at::Tensor sums = group_scores(scores, options);
  const at::Tensor chosen =
      at::empty({scores.size(0), options.chosen_groups}, scores.options().dtype(at::kLong));
  choose_experts(sums, chosen);
  const at::Tensor is_out = at::ones_like(sums, at::kBool).scatter_(1, chosen, false);
  at::Tensor grouped = scores.view({scores.size(0), options.groups, -1});
  // NaN ranks after all numbers, but before experts that are left out.
  grouped = grouped.masked_fill(grouped.ne(grouped), std::numeric_limits<float>::lowest());
  return grouped.masked_fill(is_out.unsqueeze(2), kOut).view_as(scores);
}

/// Chooses the best experts among those not left out, as the processor's loop does.
void choose(const at::Tensor& scores, const RouterOptions& options, const at::Tensor& chosen) {
  // Logits may be as small as kOut, which scores never are.
  at::Tensor corrected =
      options.chooses_by_logits ? scores.clamp_min(std::numeric_limits<float>::lowest()) : scores;
  if (options.correction_bias.defined()) corrected = corrected + options.correction_bias;
  if (options.groups > 1) corrected = scores_in_chosen_groups(corrected, options);
  choose_experts(corrected, chosen);
}

/// Returns the factor that normalises the weights of a token's chosen experts: [T, 1].
at::Tensor scales_of(const at::Tensor& sums, const RouterOptions& options) {
  return (sums.clamp_min(options.least_sum) + options.epsilon).reciprocal_() * options.scale;
}

at::Tensor sums_of(const at::Tensor& picked) { return picked.sum(1, /*keepdim=*/true); }

}  // namespace

void router_rows(const at::Tensor& logits, Choice choice, const RouterOptions& options,
                 const at::Tensor& chosen, const at::Tensor& weights) {
  const auto choose_if = [&](bool is_time) {
    if (choice == Choice::kMake && is_time) choose(logits, options, chosen);
  };
  choose_if(options.chooses_by_logits);
  logits.copy_(options.score == RouterScore::kSigmoid ? at::sigmoid(logits) : at::softmax(logits, 1));
  choose_if(!options.chooses_by_logits);
  const at::Tensor picked = logits.gather(1, chosen);
  weights.copy_(options.normalize_weights ? picked * scales_of(sums_of(picked), options)
                                          : picked * options.scale);
}

void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& logits, const at::Tensor& chosen,
                          const at::Tensor& weights, const RouterOptions& options,
                          const at::Tensor& d_weights, const RouterLossGrad& losses,
                          const at::Tensor& d_logits) {
  at::Tensor grads = at::zeros_like(probabilities);
  const auto of_counted = [&](const at::Tensor& all) {
    return losses.counted.defined() ? losses.counted.unsqueeze(1) * all : all;
  };
  if (losses.of_token.defined()) grads.add_(of_counted(losses.of_token));
  at::Tensor picked = d_weights * options.scale;
  if (options.normalize_weights) {
    const at::Tensor sums = sums_of(probabilities.gather(1, chosen));
    const at::Tensor shift = sums_of(d_weights * weights) / options.scale * sums.ge(options.least_sum);
    picked = (d_weights - shift) * scales_of(sums, options);
  }
  grads.scatter_add_(1, chosen, picked);
  at::Tensor out = options.score == RouterScore::kSigmoid
                       ? grads * probabilities * (1 - probabilities)
                       : probabilities * (grads - (grads * probabilities).sum(1, /*keepdim=*/true));
  if (losses.z_scale != 0)
    out += of_counted(at::logsumexp(logits, 1, /*keepdim=*/true) * at::softmax(logits, 1) * losses.z_scale);
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
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights,
                              const Gating& gating) {
  const at::ScalarType dtype = gate.scalar_type();
  const auto rounded = [&](const at::Tensor& x) { return single(x.to(dtype)); };
  const OpenGate open(own_rows(gate, block), own_rows(up, block), gating);
  const at::Tensor d = single(own_rows(d_activation, block)), weight = weights_of(weights, block, dtype);
  const at::Tensor activation = rounded(open.activation() * open.factor), weighted = rounded(d * weight);
  d_weights.view({-1}).index_copy_(0, block.places, (activation * d).sum(1));
  own_rows(d_activation, block).copy_(activation * weight);
  const at::Tensor d_gate = open.gate_gradient(weighted);
  own_rows(up, block).copy_(open.up_gradient(weighted));
  own_rows(gate, block).copy_(d_gate);
}

void add_biases(const at::Tensor& rows, const RowBlock& block, const at::Tensor& biases) {
  own_rows(rows, block).add_(biases.index_select(0, experts_of(block)));
}

void bias_gradient(const at::Tensor& d_rows, const RowBlock& block, const ExpertPart& part,
                   const at::Tensor& weights, const at::Tensor& d_bias) {
  at::Tensor grads = single(own_rows(d_rows, block).narrow(0, part.begin, part.count));
  if (weights.defined())
    grads = grads * weights_of(weights, block, d_rows.scalar_type()).narrow(0, part.begin, part.count);
  d_bias.add_(grads.sum(0));
}

void add_bias_products(const at::Tensor& d_rows, const RowBlock& block, const at::Tensor& biases,
                       const at::Tensor& d_weights) {
  const at::Tensor of_rows = single(biases.index_select(0, experts_of(block)));
  const at::Tensor all = d_weights.view({-1});
  all.index_copy_(0, block.places,
                  all.index_select(0, block.places) + (single(own_rows(d_rows, block)) * of_rows).sum(1));
}

}  // namespace sluice::ops::device
