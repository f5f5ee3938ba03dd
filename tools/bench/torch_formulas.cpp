#include "torch_formulas.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace sluice::bench {
namespace {

constexpr std::int64_t kChunk = 64;

/// x [b, L, heads, d] as float32 [b, heads * repeats, L / 64, 64, d].
at::Tensor in_chunks(const at::Tensor& x, std::int64_t repeats) {
  const at::Tensor heads = x.repeat_interleave(repeats, 2).transpose(1, 2).to(at::kFloat).contiguous();
  return heads.view({heads.size(0), heads.size(1), -1, kChunk, heads.size(3)});
}

at::Tensor l2_normalised(const at::Tensor& x) { return x * (x.square().sum(-1, true) + 1e-6).rsqrt(); }

/// (I - lower)^-1 for strictly lower triangular matrices, row after row.
at::Tensor inverse_of_one_minus(const at::Tensor& lower) {
  for (std::int64_t i = 1; i < kChunk; ++i) {
    const at::Tensor row = lower.select(-2, i).narrow(-1, 0, i).clone();
    const at::Tensor above = lower.narrow(-2, 0, i).narrow(-1, 0, i).clone();
    lower.select(-2, i).narrow(-1, 0, i).copy_(row + (row.unsqueeze(-1) * above).sum(-2));
  }
  return lower + at::eye(kChunk, lower.options());
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor wide = x.to(at::kFloat);
  return w * (wide * at::rsqrt(wide.pow(2).mean(-1, true) + 1e-6)).to(x.scalar_type());
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const auto whole = [](const at::Tensor& half) { return at::cat({half, half}, -1).unsqueeze(1); };
  const auto halves = x.chunk(2, -1);
  return x * whole(cos) + at::cat({-halves[1], halves[0]}, -1) * whole(sin);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate) * up; }

at::Tensor route(const at::Tensor& x, const at::Tensor& w, std::int64_t experts_per_token) {
  const at::Tensor probabilities = at::softmax(at::linear(x.to(at::kFloat), w.to(at::kFloat)), -1);
  const at::Tensor best = std::get<0>(probabilities.topk(experts_per_token, -1));
  return best / best.sum(-1, true);
}

at::Tensor experts(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& gate_up,
                   const at::Tensor& down, const at::Tensor& chosen) {
  at::Tensor sum = at::zeros_like(x);
  for (std::int64_t e = 0; e < gate_up.size(0); ++e) {
    const auto where = at::where(chosen == e);
    if (where[0].numel() == 0) continue;
    const auto halves = at::linear(x.index_select(0, where[0]), gate_up[e]).chunk(2, -1);
    const at::Tensor output = at::linear(swiglu(halves[0], halves[1]), down[e]);
    const at::Tensor scaled = output * weights.index({where[0], where[1]}).unsqueeze(-1).to(x.scalar_type());
    sum = sum.index_add(0, where[0], scaled);
  }
  return sum;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     std::int64_t window, const at::Tensor& sinks) {
  const std::int64_t repeats = q.size(2) / k.size(2);
  const auto by_head = [](const at::Tensor& x, std::int64_t times) {
    return x.transpose(1, 2).repeat_interleave(times, 1);
  };
  const at::Tensor all = at::ones({q.size(1), q.size(1)}, at::kBool);
  const at::Tensor unseen = window == 0 ? all.triu(1) : all.triu(1).logical_or(all.tril(-window));
  const at::Tensor scores = at::matmul(by_head(q, 1), by_head(k, repeats).transpose(2, 3)) * scale;
  at::Tensor masked = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
  if (sinks.defined())
    masked = at::cat({masked, sinks.view({1, -1, 1, 1}).expand({q.size(0), -1, q.size(1), 1})}, -1);
  const at::Tensor shares = at::softmax(masked, -1, at::kFloat).to(q.scalar_type()).narrow(-1, 0, q.size(1));
  return at::matmul(shares, by_head(v, repeats)).transpose(1, 2).contiguous();
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets) {
  namespace functional = torch::nn::functional;
  return functional::cross_entropy(at::linear(hidden, w).to(at::kFloat), targets,
                                   functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

at::Tensor causal_conv_silu(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor channels = x.transpose(1, 2).contiguous();
  const at::Tensor longer = at::conv1d(channels, w, {}, 1, w.size(2) - 1, 1, channels.size(1));
  return at::silu(longer.narrow(2, 0, x.size(1))).transpose(1, 2);
}

at::Tensor gated_delta_rule(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                            const at::Tensor& log_decay, const at::Tensor& beta_in) {
  const std::int64_t repeats = v_in.size(2) / k_in.size(2);
  const at::Tensor q = l2_normalised(in_chunks(q_in, repeats)) / std::sqrt(static_cast<double>(q_in.size(3)));
  const at::Tensor k = l2_normalised(in_chunks(k_in, repeats));
  const at::Tensor beta = in_chunks(beta_in.unsqueeze(-1), 1);
  const at::Tensor g = in_chunks(log_decay.unsqueeze(-1), 1).cumsum(-2);
  const at::Tensor between = (g - g.transpose(-1, -2)).tril().exp().tril();
  const at::Tensor solved =
      inverse_of_one_minus(-(at::matmul(k * beta, k.transpose(-1, -2)) * between).tril(-1));
  const at::Tensor values = at::matmul(solved, in_chunks(v_in, 1) * beta);
  const at::Tensor keys = at::matmul(solved, k * beta * g.exp());
  at::Tensor state = at::zeros({v_in.size(0), v_in.size(2), k_in.size(3), v_in.size(3)}, q.options());
  std::vector<at::Tensor> out;
  for (std::int64_t c = 0; c < q.size(2); ++c) {
    const at::Tensor query = q.select(2, c), key = k.select(2, c), decay = g.select(2, c);
    const at::Tensor last = decay.narrow(-2, kChunk - 1, 1);
    const at::Tensor written = values.select(2, c) - at::matmul(keys.select(2, c), state);
    const at::Tensor within = at::matmul(query, key.transpose(-1, -2)) * between.select(2, c);
    out.push_back(at::matmul(query * decay.exp(), state) + at::matmul(within, written));
    state = state * last.exp() + at::matmul((key * (last - decay).exp()).transpose(-1, -2), written);
  }
  return at::cat(out, -2).transpose(1, 2).to(v_in.scalar_type());
}

at::Tensor channel_delta_rule(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                              const at::Tensor& log_decay, const at::Tensor& beta_in) {
  const std::int64_t repeats = v_in.size(2) / k_in.size(2);
  const at::Tensor q = l2_normalised(in_chunks(q_in, repeats)) / std::sqrt(static_cast<double>(q_in.size(3)));
  const at::Tensor k = l2_normalised(in_chunks(k_in, repeats)), v = in_chunks(v_in, 1);
  const at::Tensor beta = in_chunks(beta_in.unsqueeze(-1), 1), g = in_chunks(log_decay, 1).cumsum(-2);
  at::Tensor state = at::zeros({v_in.size(0), v_in.size(2), k_in.size(3), v_in.size(3)}, q.options());
  const at::Tensor later = at::ones({kChunk, kChunk}, q.options()).tril().unsqueeze(-1);
  std::vector<at::Tensor> out;
  for (std::int64_t c = 0; c < q.size(2); ++c) {
    const at::Tensor query = q.select(2, c), key = k.select(2, c), decay = g.select(2, c);
    const at::Tensor between = ((decay.unsqueeze(-2) - decay.unsqueeze(-3)) * later).exp() * later;
    const at::Tensor decayed = between * key.unsqueeze(-3), beta_key = key * beta.select(2, c);
    const at::Tensor solved = inverse_of_one_minus(-(beta_key.unsqueeze(-2) * decayed).sum(-1).tril(-1));
    const at::Tensor written =
        at::matmul(solved, v.select(2, c) * beta.select(2, c) - at::matmul(beta_key * decay.exp(), state));
    const at::Tensor last = decay.narrow(-2, kChunk - 1, 1);
    out.push_back(at::matmul(query * decay.exp(), state) +
                  at::matmul((query.unsqueeze(-2) * decayed).sum(-1), written));
    state = state * last.exp().transpose(-1, -2) +
            at::matmul((key * (last - decay).exp()).transpose(-1, -2), written);
  }
  return at::cat(out, -2).transpose(1, 2).to(v_in.scalar_type());
}

at::Tensor mamba2_scan(const at::Tensor& x, const at::Tensor& b, const at::Tensor& c,
                       const at::Tensor& log_decay, const at::Tensor& step, const at::Tensor& skip) {
  const at::Tensor written = in_chunks(x * step.unsqueeze(-1), 1);
  const at::Tensor writer = in_chunks(b, x.size(2)), reader = in_chunks(c, x.size(2));
  const at::Tensor g = in_chunks(log_decay.unsqueeze(-1), 1).cumsum(-2);
  const at::Tensor between = (g - g.transpose(-1, -2)).tril().exp().tril();
  const at::Tensor within = at::matmul(at::matmul(reader, writer.transpose(-1, -2)) * between, written);
  const at::Tensor last = g.narrow(-2, kChunk - 1, 1);
  const at::Tensor added = at::matmul((writer * (last - g).exp()).transpose(-1, -2), written);
  at::Tensor state = at::zeros_like(added.select(2, 0));
  std::vector<at::Tensor> out;
  for (std::int64_t chunk = 0; chunk < g.size(2); ++chunk) {
    out.push_back(within.select(2, chunk) +
                  at::matmul(reader.select(2, chunk) * g.select(2, chunk).exp(), state));
    state = state * last.select(2, chunk).exp() + added.select(2, chunk);
  }
  return (at::cat(out, -2).transpose(1, 2) + x * skip.unsqueeze(-1)).to(x.scalar_type());
}

void adamw_update(const AdamWTensors& tensors, const ops::AdamWStep& step, double gradient_scale) {
  auto [master, m, v, grad, weights] = tensors;
  const at::Tensor g = grad * gradient_scale;
  master.mul_(1 - step.lr * step.weight_decay);
  m.lerp_(g, 1 - step.beta1);
  v.mul_(step.beta2).addcmul_(g, g, 1 - step.beta2);
  const at::Tensor root = (v.sqrt() / std::sqrt(step.bias_correction2)).add_(step.eps);
  master.addcdiv_(m, root, -step.lr / step.bias_correction1);
  weights.copy_(master);
}

}  // namespace sluice::bench
