#include "ops/gated_delta_rule.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/channel_products.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/progress_hook.hpp"
#include "ops/state_decay.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
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

/// Inputs of the rule, of a whole batch or of one part: q, k, v, log_decay, beta.
using Inputs = std::array<at::Tensor, 5>;

/// Positions of a part: one chunk, or on a device several chunks side by side, where launching the work of
/// one costs more than the work itself.
std::int64_t part_positions(const at::Tensor& x) {
  return x.is_cpu() ? kDeltaChunkPositions : kDeltaChunksOnDevice * kDeltaChunkPositions;
}

at::Tensor part_of(const at::Tensor& x, std::int64_t begin) {
  return x.narrow(1, begin, std::min(part_positions(x), x.size(1) - begin));
}
Inputs part_of(const Inputs& inputs, std::int64_t begin) {
  Inputs part;
  for (std::size_t i = 0; i < inputs.size(); ++i) part[i] = part_of(inputs[i], begin);
  return part;
}
at::Tensor part_of(const Documents& documents, std::int64_t begin) {
  return documents.packed() ? part_of(documents.first, begin) - begin : at::Tensor();
}

/// x [b, c, heads, ...] by head, with each head repeated for the value heads that share it: [b, heads * n, c,
/// ...] in float32.
at::Tensor by_head(const at::Tensor& x, std::int64_t repeats = 1) {
  const at::Tensor heads = repeats == 1 ? x : x.repeat_interleave(repeats, 2);
  return heads.transpose(1, 2).to(at::kFloat);
}

/// x [b, L, ...] extended to a whole number of chunks by zeros, which change no result.
at::Tensor in_whole_chunks(const at::Tensor& x) {
  const std::int64_t rest = x.size(1) % kDeltaChunkPositions;
  if (rest == 0) return x;
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[1] = kDeltaChunkPositions - rest;
  return at::cat({x, at::zeros(sizes, x.options())}, 1);
}

/// x [b, heads, L, ...] cut into chunks: [b, heads, chunks, c, ...].
at::Tensor chunks_of(const at::Tensor& x) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[2] = kDeltaChunkPositions;
  sizes.insert(sizes.begin() + 2, x.size(2) / kDeltaChunkPositions);
  return x.reshape(sizes);
}

at::Tensor l2_normalised(const at::Tensor& x) {
  return x * (x * x).sum(-1, /*keepdim=*/true).add(1e-6).rsqrt();
}

/// Decay factors within a chunk of c tokens: how much of what was written is left for a later reader.
struct Decays {
  /// Decay from token j to a later token i of its document; 0 otherwise: [b, hv, c, c]. With decays by channel
  /// only whether that is so, undefined without packed documents.
  at::Tensor between;
  at::Tensor before;  ///< decay from the state before the chunk to each token: [b, hv, c, 1 or dk]
  at::Tensor after;   ///< decay from each token to the end of the chunk: [b, hv, c, 1 or dk]
};

/// Leaves of decays those within documents. `document` [b, c] is Documents::first of the chunk's tokens, counted
/// from the chunk's first token; undefined without packed documents.
Decays within_documents(Decays all, const at::Tensor& document) {
  if (!document.defined()) return all;
  const at::Tensor of_token = document.unsqueeze(1).unsqueeze(-1);
  const at::Tensor together = of_token == of_token.transpose(-1, -2);
  return {all.between.defined() ? all.between * together : together, all.before * (of_token < 0),
          all.after * (of_token == of_token.narrow(-2, of_token.size(-2) - 1, 1))};
}

/// Decays e^(g_i - g_j), e^g and e^(g_last - g) within documents, from g, the log decay [b, hv, c, 1] summed
/// within the chunk.
Decays decays_of(const at::Tensor& g, const at::Tensor& document) {
  const at::Tensor last = g.narrow(-2, g.size(-2) - 1, 1);
  // Differences above the diagonal are positive and could overflow before they are masked.
  return within_documents(
      {state_decay((g - g.transpose(-1, -2)).tril()).tril(), state_decay(g), state_decay(last - g)},
      document);
}

/// Decays by channel for log decays [b, hv, c, dk]. Sums of them may be large beside the few of weak decays that
/// count, so that none is the difference of two.
Decays channel_decays_of(const at::Tensor& log_decay, const at::Tensor& document) {
  const at::Tensor later = at::constant_pad_nd(log_decay.narrow(-2, 1, log_decay.size(-2) - 1), {0, 0, 0, 1});
  return within_documents(
      {{}, state_decay(log_decay.cumsum(-2)), state_decay(later.flip(-2).cumsum(-2).flip(-2))}, document);
}

/// Terms of the formula by head: [b, hv, c, ...], or of several chunks [b, hv, chunks, c, ...].
struct Chunk {
  at::Tensor q, k, v, beta;
  Decays decay;
  at::Tensor scores;  ///< products of queries and keys, decayed: [b, hv, c, c]
  /// Coefficients by which each token's written values depend on those of earlier tokens.
  at::Tensor couplings;

  /// `arrange` lays out a tensor that is by head: as one chunk, or as several.
  template <class Arrange>
  Chunk(const Inputs& inputs, const at::Tensor& document, Arrange arrange) {
    const auto& [q_in, k_in, v_in, log_decay, beta_in] = inputs;
    const std::int64_t repeats = v_in.size(2) / k_in.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(k_in.size(3)));
    q = l2_normalised(arrange(by_head(q_in, repeats))) * scale;
    k = l2_normalised(arrange(by_head(k_in, repeats)));
    v = arrange(by_head(v_in));
    beta = arrange(by_head(beta_in)).unsqueeze(-1);
    const at::Tensor decay_by_head = arrange(by_head(log_decay));
    if (log_decay.dim() == v_in.dim())
      decay_by_channel(decay_by_head, document);
    else
      decay_by_token(decay_by_head, document);
  }

  /// Share of the state before the chunk that is left after it: [b, hv, 1 or dk, 1].
  [[nodiscard]] at::Tensor left() const {
    return decay.before.narrow(-2, decay.before.size(-2) - 1, 1).transpose(-1, -2);
  }

 private:
  void decay_by_token(const at::Tensor& log_decay, const at::Tensor& document) {
    decay = decays_of(log_decay.cumsum(-1).unsqueeze(-1), document);
    couplings = (at::matmul(beta * k, k.transpose(-1, -2)) * decay.between).tril(-1);
    scores = at::matmul(q, k.transpose(-1, -2)) * decay.between;
  }
  void decay_by_channel(const at::Tensor& log_decay, const at::Tensor& document) {
    decay = channel_decays_of(log_decay, document);
    const ChannelProducts products = channel_products(q, k, log_decay);
    scores = decay.between.defined() ? products.of_queries * decay.between : products.of_queries;
    couplings = beta * (decay.between.defined() ? products.of_keys * decay.between : products.of_keys);
  }
};

/// Solution x of (I + couplings) x = b.
at::Tensor solved(const at::Tensor& couplings, const at::Tensor& b) {
  return at::linalg_solve_triangular(couplings, b, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
}

struct PartResult {
  at::Tensor out;    ///< output of the part, [b, c, hv, dv] in v's dtype
  at::Tensor state;  ///< state after the part, [b, hv, dk, dv] float32
};

/// Computes one chunk from the state S before it. With D the decays between its tokens and d the decays of S:
/// the values that the chunk writes solve (I + tril(beta k k^T * D, -1)) u = beta v - beta d k S.
PartResult run_chunk(const Inputs& inputs, const at::Tensor& document, const at::Tensor& state) {
  const Chunk chunk(inputs, document, [](const at::Tensor& x) { return x; });
  const auto& [q, k, v, beta, decay, scores, couplings] = chunk;
  const at::Tensor seen = at::matmul(beta * k * decay.before, state);
  const at::Tensor written = solved(couplings, beta * v - seen);
  const at::Tensor out = at::matmul(q * decay.before, state) + at::matmul(scores, written);
  const at::Tensor after = state * chunk.left() + at::matmul((k * decay.after).transpose(-1, -2), written);
  return {out.transpose(1, 2).to(inputs[2].scalar_type()), after};
}

/// Computes several chunks: everything that does not need the state is computed for all of them at once; what
/// they write is u - w S, with u and w the solutions for beta v and beta d k. Little is left to do chunk
/// after chunk.
PartResult run_chunks_together(Inputs inputs, at::Tensor document, at::Tensor state) {
  const std::int64_t length = inputs[2].size(1);
  for (at::Tensor& x : inputs) x = in_whole_chunks(x);
  const std::int64_t chunks = inputs[2].size(1) / kDeltaChunkPositions;
  if (document.defined()) {
    // Added tokens belong to the last token's document, so that its state stays.
    const std::int64_t behind = chunks * kDeltaChunkPositions - length;
    document = at::cat({document, document.narrow(1, length - 1, 1).expand({-1, behind})}, 1)
                   .view({-1, chunks, kDeltaChunkPositions});
    document = document - at::arange(chunks, document.options()).mul_(kDeltaChunkPositions).unsqueeze(-1);
  }
  const Chunk all(inputs, document, chunks_of);
  const auto& [q, k, v, beta, decay, scores, couplings] = all;
  const at::Tensor solution = solved(couplings, at::cat({beta * v, beta * k * decay.before}, -1));
  const at::Tensor u = solution.narrow(-1, 0, v.size(-1)), w = solution.narrow(-1, v.size(-1), k.size(-1));
  const at::Tensor q_before = q * decay.before;
  const at::Tensor k_after = (k * decay.after).transpose(-1, -2), left = all.left();
  node::variable_list outs;
  for (std::int64_t i = 0; i < chunks; ++i) {
    const at::Tensor written = u.select(2, i) - at::matmul(w.select(2, i), state);
    outs.push_back(at::matmul(q_before.select(2, i), state) + at::matmul(scores.select(2, i), written));
    state = state * left.select(2, i) + at::matmul(k_after.select(2, i), written);
  }
  const at::Tensor out = at::cat(outs, 2).narrow(2, 0, length);
  return {out.transpose(1, 2).to(inputs[2].scalar_type()), state};
}

PartResult run_part(const Inputs& inputs, const at::Tensor& document, const at::Tensor& state) {
  return inputs[2].size(1) <= kDeltaChunkPositions ? run_chunk(inputs, document, state)
                                                   : run_chunks_together(inputs, document, state);
}

/// Computes all parts, from `state` to the state behind the last one. Appends the state before each part to
/// `states`, if not null.
at::Tensor run_parts(const Inputs& inputs, const Documents& documents, at::Tensor& state,
                     node::variable_list* states) {
  const at::Tensor& v = inputs[2];
  at::Tensor out = at::empty_like(v);
  for (std::int64_t begin = 0; begin < v.size(1); begin += part_positions(v)) {
    if (states != nullptr) states->push_back(state);
    PartResult result = run_part(part_of(inputs, begin), part_of(documents, begin), state);
    out.narrow(1, begin, result.out.size(1)).copy_(result.out);
    state = std::move(result.state);
    poll_progress();
  }
  return out;
}

/// The values of x as a tensor that begins a graph of its own.
at::Tensor leaf(const at::Tensor& x) { return x.detach().requires_grad_(true); }

/// Gradients of a part's inputs. Replaces `d_state`, the gradient of the state after the part, by the
/// gradient of the state before it.
Inputs part_backward(const Inputs& inputs, const at::Tensor& document, const at::Tensor& state,
                     const at::Tensor& d_out, at::Tensor& d_state) {
  const at::AutoGradMode with_graph(true);
  Inputs leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) leaves[i] = leaf(inputs[i]);
  const at::Tensor before = leaf(state);
  const PartResult result = run_part(leaves, document, before);
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
    at::Tensor out = run_parts(inputs, documents, state, keep ? &kept : nullptr);
    if (keep) context->save_for_backward(kept);
    node::keep(context, documents);
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "delta rule backward");
    const node::variable_list kept = context->get_saved_variables();
    Inputs inputs;
    std::copy_n(kept.begin(), inputs.size(), inputs.begin());
    Inputs d_inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) d_inputs[i] = at::empty_like(inputs[i]);
    const Documents documents = node::kept_documents(context);
    at::Tensor d_state = at::zeros_like(kept.back());
    for (auto number = static_cast<std::int64_t>(kept.size() - inputs.size()) - 1; number >= 0; --number) {
      const std::int64_t begin = number * part_positions(inputs[2]);
      const Inputs part = part_of(inputs, begin);
      const at::Tensor& state = kept[inputs.size() + static_cast<std::size_t>(number)];
      const at::Tensor d_out = part_of(grads[0], begin);
      const Inputs d_part = part_backward(part, part_of(documents, begin), state, d_out, d_state);
      const Inputs targets = part_of(d_inputs, begin);
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
  const trace::Span span(trace::Kind::kOperation, "delta rule");
  require_shared_heads(in);
  const bool keep = node::wants_graph(in.q) || node::wants_graph(in.k) || node::wants_graph(in.v) ||
                    node::wants_graph(in.log_decay) || node::wants_graph(in.beta);
  return GatedDeltaRule::apply(in.q, in.k, in.v, in.log_decay, in.beta, documents, keep);
}

at::Tensor continue_gated_delta_rule(const DeltaRuleInputs& in, at::Tensor& state) {
  const at::NoGradGuard no_grad;
  require_shared_heads(in);
  return run_parts({in.q, in.k, in.v, in.log_decay, in.beta}, {}, state, nullptr);
}

}  // namespace sluice::ops
