#include "ops/gated_delta_rule.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace sluice::ops {
namespace {

/// q, k, v, log_decay, beta: of a whole batch, or of one chunk of it.
using Inputs = std::array<at::Tensor, 5>;

Inputs chunk_of(const Inputs& inputs, std::int64_t begin) {
  Inputs chunk;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    chunk[i] = inputs[i].narrow(1, begin, std::min(kDeltaChunkPositions, inputs[i].size(1) - begin));
  return chunk;
}

at::Tensor chunk_of(const Documents& documents, std::int64_t begin) {
  if (!documents.packed()) return {};
  return documents.first.narrow(1, begin, std::min(kDeltaChunkPositions, documents.first.size(1) - begin)) -
         begin;
}

/// x [b, c, heads, ...] by head, each head repeated for the value heads that share it: [b, heads * n, c, ...]
/// in float32.
at::Tensor by_head(const at::Tensor& x, std::int64_t repeats = 1) {
  const at::Tensor heads = repeats == 1 ? x : x.repeat_interleave(repeats, 2);
  return heads.transpose(1, 2).to(at::kFloat);
}

at::Tensor l2_normalised(const at::Tensor& x) {
  return x * (x * x).sum(-1, /*keepdim=*/true).add(1e-6).rsqrt();
}

/// How much of what a chunk's tokens write is left for others to see. c is the chunk's length.
struct Decays {
  at::Tensor between;  ///< [b, hv, c, c] from token j to a later token i of its document; 0 for others
  at::Tensor before;   ///< [b, hv, c, 1] of the state before the chunk, at each token
  at::Tensor after;    ///< [b, hv, c, 1] of each token's writing, after the chunk
};

/// With g the decay [b, hv, c, 1] summed within the chunk: e^(g_i - g_j), e^g and e^(g_last - g), where the
/// two belong to one document. `document` [b, c] is Documents::first of the chunk's tokens, counted from the
/// chunk's first, and undefined without packed documents.
Decays decays_of(const at::Tensor& g, const at::Tensor& document) {
  const std::int64_t last = g.size(-2) - 1;
  // Differences above the diagonal are positive and could overflow before they are masked.
  Decays all{(g - g.transpose(-1, -2)).tril().exp().tril(), g.exp(), (g.narrow(-2, last, 1) - g).exp()};
  if (!document.defined()) return all;
  const at::Tensor of_token = document.unsqueeze(1).unsqueeze(-1);
  return {all.between * (of_token == of_token.transpose(-1, -2)), all.before * (of_token < 0),
          all.after * (of_token == of_token.narrow(-2, last, 1))};
}

struct ChunkResult {
  at::Tensor out;    ///< [b, c, hv, dv] in v's dtype
  at::Tensor state;  ///< [b, hv, dk, dv] float32, after the chunk
};

/// One chunk from the state S before it. With D the decays between its tokens and d those of S: the values
/// that the chunk writes solve (I + tril(beta k k^T * D, -1)) u = beta v - beta d k S.
ChunkResult run_chunk(const Inputs& inputs, const at::Tensor& document, const at::Tensor& state) {
  const auto& [q_in, k_in, v_in, log_decay, beta_in] = inputs;
  const std::int64_t repeats = v_in.size(2) / k_in.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(k_in.size(3)));
  const at::Tensor q = l2_normalised(by_head(q_in, repeats)) * scale;
  const at::Tensor k = l2_normalised(by_head(k_in, repeats));
  const at::Tensor v = by_head(v_in);
  const at::Tensor beta = by_head(beta_in).unsqueeze(-1);
  const Decays decay = decays_of(by_head(log_decay).cumsum(-1).unsqueeze(-1), document);

  const at::Tensor beta_k = beta * k;
  const at::Tensor couplings = (at::matmul(beta_k, k.transpose(-1, -2)) * decay.between).tril(-1);
  const at::Tensor seen = at::matmul(beta_k * decay.before, state);
  const at::Tensor written = at::linalg_solve_triangular(couplings, beta * v - seen, /*upper=*/false,
                                                         /*left=*/true, /*unitriangular=*/true);
  const at::Tensor out = at::matmul(q * decay.before, state) +
                         at::matmul(at::matmul(q, k.transpose(-1, -2)) * decay.between, written);
  const at::Tensor left = decay.before.narrow(-2, decay.before.size(-2) - 1, 1);
  const at::Tensor after = state * left + at::matmul((k * decay.after).transpose(-1, -2), written);
  return {out.transpose(1, 2).to(v_in.scalar_type()), after};
}

/// All chunks, from `state` to the one behind them. Adds the state before each to `states`, if it is not null.
at::Tensor run_chunks(const Inputs& inputs, const Documents& documents, at::Tensor& state,
                      node::variable_list* states) {
  const at::Tensor& v = inputs[2];
  at::Tensor out = at::empty_like(v);
  for (std::int64_t begin = 0; begin < v.size(1); begin += kDeltaChunkPositions) {
    if (states != nullptr) states->push_back(state);
    ChunkResult result = run_chunk(chunk_of(inputs, begin), chunk_of(documents, begin), state);
    out.narrow(1, begin, result.out.size(1)).copy_(result.out);
    state = std::move(result.state);
    poll_progress();
  }
  return out;
}

/// A tensor that begins a graph of its own.
at::Tensor leaf(const at::Tensor& x) { return x.detach().requires_grad_(true); }

/// Gradients of a chunk's inputs, and of the state before it in place of `d_state`, the one after it.
Inputs chunk_backward(const Inputs& inputs, const at::Tensor& document, const at::Tensor& state,
                      const at::Tensor& d_out, at::Tensor& d_state) {
  const at::AutoGradMode with_graph(true);
  Inputs leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) leaves[i] = leaf(inputs[i]);
  const at::Tensor before = leaf(state);
  const ChunkResult result = run_chunk(leaves, document, before);
  node::variable_list wanted(leaves.begin(), leaves.end());
  wanted.push_back(before);
  const node::variable_list grads =
      torch::autograd::grad({result.out, result.state}, wanted, {d_out, d_state});
  d_state = grads.back();
  Inputs d_inputs;
  std::copy_n(grads.begin(), d_inputs.size(), d_inputs.begin());
  return d_inputs;
}

struct GatedDeltaRule : node::Function<GatedDeltaRule> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const at::Tensor& log_decay, const at::Tensor& beta,
                            const Documents& documents, bool keep) {
    const Inputs inputs{q, k, v, log_decay, beta};
    at::Tensor state = at::zeros({v.size(0), v.size(2), k.size(3), v.size(3)}, v.options().dtype(at::kFloat));
    node::variable_list kept(inputs.begin(), inputs.end());
    at::Tensor out = run_chunks(inputs, documents, state, keep ? &kept : nullptr);
    if (keep) context->save_for_backward(kept);
    node::keep(context, documents);
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const node::variable_list kept = context->get_saved_variables();
    Inputs inputs;
    std::copy_n(kept.begin(), inputs.size(), inputs.begin());
    Inputs d_inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) d_inputs[i] = at::empty_like(inputs[i]);
    const Documents documents = node::kept_documents(context);
    at::Tensor d_state = at::zeros_like(kept.back());
    for (auto chunk = static_cast<std::int64_t>(kept.size() - inputs.size()) - 1; chunk >= 0; --chunk) {
      const std::int64_t begin = chunk * kDeltaChunkPositions;
      const Inputs part = chunk_of(inputs, begin);
      const at::Tensor& state = kept[inputs.size() + static_cast<std::size_t>(chunk)];
      const at::Tensor d_out = grads[0].narrow(1, begin, part[0].size(1));
      const Inputs d_part = chunk_backward(part, chunk_of(documents, begin), state, d_out, d_state);
      const Inputs targets = chunk_of(d_inputs, begin);
      for (std::size_t i = 0; i < targets.size(); ++i) targets[i].copy_(d_part[i]);
      poll_progress();
    }
    return {d_inputs[0], d_inputs[1], d_inputs[2], d_inputs[3], d_inputs[4], {}, {}};
  }
};

void require_shared_heads(const DeltaRuleInputs& in) {
  SLUICE_ASSERT(in.q.sizes() == in.k.sizes() && in.v.size(2) % in.k.size(2) == 0,
                "{} value heads cannot share {} key heads", in.v.size(2), in.k.size(2));
}

}  // namespace

at::Tensor gated_delta_rule(const DeltaRuleInputs& in, const Documents& documents) {
  require_shared_heads(in);
  const bool keep = node::wants_graph(in.q) || node::wants_graph(in.k) || node::wants_graph(in.v) ||
                    node::wants_graph(in.log_decay) || node::wants_graph(in.beta);
  return GatedDeltaRule::apply(in.q, in.k, in.v, in.log_decay, in.beta, documents, keep);
}

at::Tensor continue_gated_delta_rule(const DeltaRuleInputs& in, at::Tensor& state) {
  const at::NoGradGuard no_grad;
  require_shared_heads(in);
  return run_chunks({in.q, in.k, in.v, in.log_decay, in.beta}, {}, state, nullptr);
}

}  // namespace sluice::ops
