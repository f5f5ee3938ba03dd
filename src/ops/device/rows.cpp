// Operations on single rows: norms, rotary positions, gated activations, convolutions.
#include "ops/device/gate.hpp"
#include "ops/device/processor.hpp"
#include "ops/device/single.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace sluice::ops::device {
namespace {

/// Returns x [..., N] as a matrix of rows.
at::Tensor rows_of(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }

at::Tensor norm_factor(const at::Tensor& weight, NormKind kind) {
  return kind == NormKind::kZeroCentred ? single(weight) + 1 : single(weight);
}

/// Returns rows less the mean of each, where the kind takes it off.
at::Tensor centred(const at::Tensor& rows, NormKind kind) {
  return kind == NormKind::kLayerNorm ? rows - rows.mean(1, /*keepdim=*/true) : rows;
}

/// Returns centred rows of numbers of that type after normalisation, before the weight's factor.
at::Tensor normalised_rows(const at::Tensor& rows, at::ScalarType type, NormKind kind,
                           const at::Tensor& scales) {
  const at::Tensor normalised = rows * scales.unsqueeze(1);
  return kind == NormKind::kFactor ? single(normalised.to(type)) : normalised;
}

/// Weights of a norm for each row of x, which use the rows of `weight` in turn; one row for all if it has no more.
at::Tensor weight_rows(const at::Tensor& weight, const at::Tensor& x) {
  const std::int64_t width = x.size(-1), groups = weight.numel() / width;
  return groups == 1 ? weight : weight.view({groups, width}).repeat({x.numel() / weight.numel(), 1});
}

}  // namespace

void norm_rows(const at::Tensor& x, const at::Tensor& weight, double eps, NormKind kind, const at::Tensor& y,
               const at::Tensor& scales) {
  const at::Tensor rows = centred(single(rows_of(x)), kind);
  scales.copy_(rows.square().mean(1).add_(eps).rsqrt_());
  rows_of(y).copy_(normalised_rows(rows, x.scalar_type(), kind, scales) *
                   norm_factor(weight_rows(weight, x), kind));
}

void norm_rows_backward(const at::Tensor& x, const at::Tensor& weight, NormKind kind,
                        const at::Tensor& scales, const at::Tensor& d_y, const at::Tensor& d_x,
                        const at::Tensor& d_weight) {
  const at::Tensor rows = centred(single(rows_of(x)), kind), d_normed = single(rows_of(d_y)),
                   scale = scales.unsqueeze(1);
  const at::Tensor d_rows = d_normed * norm_factor(weight_rows(weight, x), kind);
  const at::Tensor shrink = (d_rows * rows).mean(1, /*keepdim=*/true) * scale * scale;
  rows_of(d_x).copy_(scale * (centred(d_rows, kind) - rows * shrink));
  if (d_weight.defined())
    d_weight.add_((d_normed * normalised_rows(rows, x.scalar_type(), kind, scales))
                      .view({-1, d_weight.numel()})
                      .sum(0));
}

void rotate_heads(const at::Tensor& x, const RotaryTable& table, Turn turn, const at::Tensor& y) {
  const std::int64_t half = table.cos.size(1), rest = x.size(3) - 2 * half;
  const auto angles = [&](const at::Tensor& of) {
    return of.narrow(0, 0, x.size(1)).unsqueeze(1).to(x.scalar_type());
  };
  const at::Tensor cos = angles(table.cos),
                   sin = turn == Turn::kForward ? angles(table.sin) : -angles(table.sin);
  const auto part_of = [&](const at::Tensor& of, std::int64_t part) {
    return table.layout == RotaryLayout::kInterleaved ? of.slice(3, part, 2 * half, 2)
                                                      : of.narrow(3, part * half, half);
  };
  const at::Tensor first = part_of(x, 0), second = part_of(x, 1);
  part_of(y, 0).copy_(first * cos - second * sin);
  part_of(y, 1).copy_(second * cos + first * sin);
  if (rest > 0) y.narrow(3, 2 * half, rest).copy_(x.narrow(3, 2 * half, rest));
}

void swiglu_rows(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out, const Gating& gating) {
  const OpenGate open(gate, up, gating);
  out.copy_(open.activation() * open.factor);
}

void swiglu_rows_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_out,
                          const at::Tensor& d_gate, const at::Tensor& d_up, const Gating& gating) {
  const OpenGate open(gate, up, gating);
  const at::Tensor d = single(d_out), d_g = open.gate_gradient(d);
  d_up.copy_(open.up_gradient(d));
  d_gate.copy_(d_g);
}

namespace {

/// Elements of x [b, L, C] under the taps of a causal convolution.
class Taps {
 public:
  Taps(const at::Tensor& x, const at::Tensor& weight, const Documents& documents)
      : x_(single(x)),
        filters_(single(weight).squeeze(1).t()),
        documents_(documents),
        count_(weight.size(2)) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] at::Tensor filter(std::int64_t tap) const { return filters_[tap]; }
  /// Returns the input before each token that a tap reads; zeros before the start of the document.
  [[nodiscard]] at::Tensor seen(std::int64_t tap) const {
    at::Tensor out = at::zeros_like(x_);
    const std::int64_t back = back_of(tap), rest = x_.size(1) - back;
    if (rest > 0) out.narrow(1, back, rest).copy_(x_.narrow(1, 0, rest));
    return masked(out, back);
  }
  /// Adds to sums [b, L, C] the gradients that pass back through a tap.
  void add_back(const at::Tensor& grads, std::int64_t tap, const at::Tensor& sums) const {
    const std::int64_t back = back_of(tap), rest = x_.size(1) - back;
    if (rest > 0) sums.narrow(1, 0, rest).add_(masked(grads * filter(tap), back).narrow(1, back, rest));
  }
  /// Returns the sums over the taps, to which a bias [C] is added if it is defined.
  [[nodiscard]] at::Tensor sums(const at::Tensor& bias) const {
    at::Tensor sum = at::zeros_like(x_);
    if (bias.defined()) sum.add_(single(bias));
    for (std::int64_t tap = 0; tap < count_; ++tap) sum.add_(seen(tap) * filter(tap));
    return sum;
  }

 private:
  [[nodiscard]] std::int64_t back_of(std::int64_t tap) const { return count_ - 1 - tap; }
  [[nodiscard]] at::Tensor masked(const at::Tensor& x, std::int64_t back) const {
    if (!documents_.packed()) return x;
    const at::Tensor before = at::arange(x.size(1), documents_.first.options()) - back;
    return x * (before >= documents_.first).unsqueeze(2);
  }

  at::Tensor x_, filters_;
  const Documents& documents_;
  std::int64_t count_;
};

}  // namespace

void causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                 ConvActivation activation, const Documents& documents, const at::Tensor& y) {
  const at::Tensor sums = Taps(x, weight, documents).sums(bias);
  y.copy_(activation == ConvActivation::kSilu ? sums * at::sigmoid(sums) : sums);
}

std::pair<at::Tensor, at::Tensor> causal_conv_backward(const at::Tensor& x, const at::Tensor& weight,
                                                       const at::Tensor& bias, ConvActivation activation,
                                                       const Documents& documents, const at::Tensor& d_y,
                                                       const at::Tensor& d_x) {
  const Taps taps(x, weight, documents);
  at::Tensor d_sums = single(d_y);
  if (activation == ConvActivation::kSilu) {
    const at::Tensor sums = taps.sums(bias), gate = at::sigmoid(sums);
    d_sums = d_sums * gate * (sums * (1 - gate) + 1);
  }
  const at::Tensor d_inputs = at::zeros_like(d_sums);
  at::Tensor d_weight = at::empty(weight.sizes(), weight.options().dtype(at::kFloat));
  for (std::int64_t tap = 0; tap < taps.count(); ++tap) {
    taps.add_back(d_sums, tap, d_inputs);
    d_weight.select(2, tap).squeeze(1).copy_((d_sums * taps.seen(tap)).flatten(0, 1).sum(0));
  }
  d_x.copy_(d_inputs);
  return {d_weight, d_sums.flatten(0, 1).sum(0)};
}

}  // namespace sluice::ops::device
