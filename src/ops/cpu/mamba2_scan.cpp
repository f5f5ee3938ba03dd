#include "ops/mamba2_scan.hpp"

#include "base/compute_sizes.hpp"
#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "ops/cpu/scan_decays.hpp"
#include "ops/runtime/node.hpp"
#include "ops/runtime/progress_hook.hpp"
#include "ops/state_decay.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <vector>

namespace sluice::ops {
namespace {

/// Inputs that have a value for each token, of a whole batch or of one chunk: x, b, c, log_decay, step.
using TokenInputs = std::array<at::Tensor, 5>;

at::Tensor chunk_of(const at::Tensor& x, std::int64_t begin) {
  return x.narrow(1, begin, std::min(kDeltaChunkPositions, x.size(1) - begin));
}
TokenInputs chunk_of(const TokenInputs& inputs, std::int64_t begin) {
  TokenInputs chunk;
  for (std::size_t i = 0; i < inputs.size(); ++i) chunk[i] = chunk_of(inputs[i], begin);
  return chunk;
}
at::Tensor chunk_of(const Documents& documents, std::int64_t begin) {
  return documents.packed() ? (chunk_of(documents.first, begin) - begin).contiguous() : at::Tensor();
}

/// Decays within a chunk of t tokens: how much of what was written is left for a later reader.
struct ChunkDecays {
  at::Tensor
      between;        ///< decay from token j to a later token i of its document; 0 otherwise [b, heads, t, t]
  at::Tensor before;  ///< decay from the state before the chunk to each token [b, t, heads, 1]
  at::Tensor after;   ///< decay from each token to the end of the chunk [b, t, heads, 1]
};

/// Decays of log decays [b, t, heads]. `document` [b, t] is Documents::first of the chunk's tokens, counted from
/// the chunk's first token; undefined without packed documents.
ChunkDecays chunk_decays_of(const at::Tensor& log_decay, const at::Tensor& document) {
  const at::Tensor sums = log_decay.to(at::kDouble).cumsum(1);
  const std::int64_t tokens = sums.size(1), last = tokens - 1;
  ChunkDecays decays{at::empty({sums.size(0), sums.size(2), tokens, tokens}, log_decay.options()),
                     state_decay(sums).to(at::kFloat).unsqueeze(-1),
                     state_decay(sums.narrow(1, last, 1) - sums).to(at::kFloat).unsqueeze(-1)};
  cpu::scan_decays(sums.transpose(1, 2).contiguous(), document, decays.between);
  if (!document.defined()) return decays;
  decays.before.mul_((document < 0).unsqueeze(-1).unsqueeze(-1));
  decays.after.mul_((document == document.narrow(1, last, 1)).unsqueeze(-1).unsqueeze(-1));
  return decays;
}

/// x [b, t, k, ...] with its second and third dims exchanged: [b, k, t, ...].
at::Tensor swapped(const at::Tensor& x) { return x.transpose(1, 2); }

/// One chunk of t tokens in float32, by head or by group. With D the decays between its tokens, d those from
/// the state S before the chunk, f those to its end, and u = step x:
///     out = (c b^T * D) u + d c S + skip x,   S' = left S + b^T f u
class ScanChunk {
 public:
  ScanChunk(const TokenInputs& inputs, const at::Tensor& document)
      : x_(inputs[0].to(at::kFloat)),
        b_(swapped(inputs[1]).to(at::kFloat).contiguous()),
        c_(swapped(inputs[2]).to(at::kFloat).contiguous()),
        step_(inputs[4].unsqueeze(-1)),
        decay_(chunk_decays_of(inputs[3], document)),
        written_(x_ * step_),
        written_after_(written_ * decay_.after) {}

  /// Output [b, t, heads, p] without what `skip` adds. Replaces the state by the one after the chunk.
  [[nodiscard]] at::Tensor run(at::Tensor& state) const {
    const at::Tensor inside = at::matmul(scores(), swapped(written_));
    at::Tensor out = by_token(at::matmul(c_, state)).mul(decay_.before).add_(swapped(inside));
    state = left_over(state) + at::matmul(b_.transpose(-1, -2), by_group(written_after_));
    return out;
  }

  /// Gradients of the chunk's inputs, in float32. Replaces `d_state`, the gradient of the state after the
  /// chunk, by that of the `state` before it.
  [[nodiscard]] TokenInputs backward(const at::Tensor& state, const at::Tensor& d_out,
                                     at::Tensor& d_state) const {
    const at::Tensor between = by_group_of_heads(decay_.between);
    const at::Tensor products = at::matmul(c_, b_.transpose(-1, -2)).unsqueeze(2);
    const at::Tensor d_scores =
        by_group_of_heads(at::matmul(swapped(d_out), swapped(written_).transpose(-1, -2))) * between;
    const at::Tensor d_products = d_scores.sum(2);
    const at::Tensor d_before = by_group(d_out * decay_.before);
    const at::Tensor from_state = by_token(at::matmul(b_, d_state)).mul(decay_.after);
    const at::Tensor d_written =
        swapped(at::matmul((products * between).flatten(1, 2).transpose(-1, -2), swapped(d_out))) +
        from_state;
    const at::Tensor d_b = at::matmul(d_products.transpose(-1, -2), c_) +
                           at::matmul(by_group(written_after_), d_state.transpose(-1, -2));
    const at::Tensor d_c = at::matmul(d_products, b_) + at::matmul(d_before, state.transpose(-1, -2));

    // Gradients of the sums of log decays: each decay is e^(one sum - another), so that the gradient of the
    // one is minus that of the other. Equal sums, on the diagonal, leave the decay at 1.
    const at::Tensor pairs = (d_scores * products).flatten(1, 2).tril(-1);
    const at::Tensor to_end = (from_state * written_).sum(-1);
    at::Tensor d_sums = swapped(pairs.sum(-1) - pairs.sum(-2)) - to_end +
                        (by_token(at::matmul(c_, state)) * d_out * decay_.before).sum(-1);
    const at::Tensor of_left = (split(state) * split(d_state)).sum({2, 4}).flatten(1) * left().flatten(1);
    d_sums.select(1, d_sums.size(1) - 1).add_(to_end.sum(1) + of_left);
    d_state = left_over(d_state) + at::matmul(c_.transpose(-1, -2), d_before);
    return {d_written * step_, swapped(d_b), swapped(d_c), d_sums.flip(1).cumsum(1).flip(1),
            (d_written * x_).sum(-1)};
  }

  [[nodiscard]] const at::Tensor& x() const { return x_; }

 private:
  [[nodiscard]] std::int64_t groups() const { return b_.size(1); }
  /// x [b, t, heads, p] as [b, groups, t, heads of a group * p]; and the inverse.
  [[nodiscard]] at::Tensor by_group(const at::Tensor& x) const {
    return swapped(x.reshape({x.size(0), x.size(1), groups(), -1}));
  }
  [[nodiscard]] at::Tensor by_token(const at::Tensor& x) const {
    return swapped(x).reshape({x.size(0), x.size(2), x_.size(2), -1});
  }
  /// x [b, heads, ...] as [b, groups, heads of a group, ...].
  [[nodiscard]] at::Tensor by_group_of_heads(const at::Tensor& x) const {
    return x.unflatten(1, {groups(), -1});
  }
  /// A state [b, groups, n, heads of a group * p] by head: [b, groups, n, heads of a group, p].
  [[nodiscard]] at::Tensor split(const at::Tensor& state) const {
    return state.unflatten(3, {x_.size(2) / groups(), -1});
  }
  /// Share of the state before the chunk that is left behind it: [b, groups, 1, heads of a group, 1].
  [[nodiscard]] at::Tensor left() const {
    const at::Tensor last = decay_.before.select(1, decay_.before.size(1) - 1);
    return last.reshape({last.size(0), groups(), 1, -1, 1});
  }
  [[nodiscard]] at::Tensor left_over(const at::Tensor& state) const {
    return (split(state) * left()).flatten(3);
  }
  /// Products of what reads and what writes, decayed: [b, heads, t, t].
  [[nodiscard]] at::Tensor scores() const {
    return (by_group_of_heads(decay_.between) * at::matmul(c_, b_.transpose(-1, -2)).unsqueeze(2))
        .flatten(1, 2);
  }

  at::Tensor x_, b_, c_, step_;
  ChunkDecays decay_;
  at::Tensor written_, written_after_;
};

at::Tensor empty_state(const at::Tensor& x, const at::Tensor& b) {
  return at::zeros({x.size(0), b.size(2), b.size(3), x.size(2) / b.size(2) * x.size(3)},
                   x.options().dtype(at::kFloat));
}

/// Computes all chunks, from `state` to the state behind the last one. Appends the state before each chunk to
/// `states`, if not null.
at::Tensor run_chunks(const TokenInputs& inputs, const at::Tensor& skip, const Documents& documents,
                      at::Tensor& state, node::variable_list* states) {
  const at::Tensor& x = inputs[0];
  at::Tensor out = at::empty_like(x);
  for (std::int64_t begin = 0; begin < x.size(1); begin += kDeltaChunkPositions) {
    if (states != nullptr) states->push_back(state);
    const ScanChunk chunk(chunk_of(inputs, begin), chunk_of(documents, begin));
    chunk_of(out, begin).copy_(chunk.run(state).addcmul_(chunk.x(), skip.unsqueeze(-1)));
    poll_progress();
  }
  return out;
}

struct Mamba2Scan : node::Function<Mamba2Scan> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const at::Tensor& b,
                            const at::Tensor& c, const at::Tensor& log_decay, const at::Tensor& step,
                            const at::Tensor& skip, const Documents& documents, bool keep) {
    const TokenInputs inputs{x, b, c, log_decay, step};
    at::Tensor state = empty_state(x, b);
    node::variable_list kept(inputs.begin(), inputs.end());
    kept.push_back(skip);
    at::Tensor out = run_chunks(inputs, skip, documents, state, keep ? &kept : nullptr);
    if (keep) context->save_for_backward(kept);
    node::keep(context, documents);
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const trace::Span span(trace::Kind::kOperation, "scan backward");
    const node::variable_list kept = context->get_saved_variables();
    TokenInputs inputs, d_inputs;
    std::copy_n(kept.begin(), inputs.size(), inputs.begin());
    for (std::size_t i = 0; i < inputs.size(); ++i) d_inputs[i] = at::empty_like(inputs[i]);
    const at::Tensor skip = kept[inputs.size()].unsqueeze(-1);
    const Documents documents = node::kept_documents(context);
    const std::size_t first = inputs.size() + 1;  // index of the state before the first chunk
    at::Tensor d_state = at::zeros_like(kept.back()), d_skip = at::zeros_like(kept[inputs.size()]);
    for (auto number = static_cast<std::int64_t>(kept.size() - first) - 1; number >= 0; --number) {
      const std::int64_t begin = number * kDeltaChunkPositions;
      const ScanChunk chunk(chunk_of(inputs, begin), chunk_of(documents, begin));
      const at::Tensor d_out = chunk_of(grads[0], begin).to(at::kFloat);
      TokenInputs d_chunk = chunk.backward(kept[first + static_cast<std::size_t>(number)], d_out, d_state);
      d_chunk[0].addcmul_(d_out, skip);
      d_skip.add_((d_out * chunk.x()).sum({0, 1, 3}));
      for (std::size_t i = 0; i < d_inputs.size(); ++i) chunk_of(d_inputs[i], begin).copy_(d_chunk[i]);
      poll_progress();
    }
    return {d_inputs[0], d_inputs[1], d_inputs[2], d_inputs[3], d_inputs[4], d_skip, {}, {}};
  }
};

void require_shared_groups(const Mamba2Inputs& in) {
  SLUICE_ASSERT(in.b.sizes() == in.c.sizes() && in.x.size(2) % in.b.size(2) == 0,
                "{} heads cannot share {} groups", in.x.size(2), in.b.size(2));
  SLUICE_ASSERT(in.x.is_cpu(), "the scan of Mamba-2 is computed by the processor alone");
}

}  // namespace

at::Tensor mamba2_scan(const Mamba2Inputs& in, const Documents& documents) {
  const trace::Span span(trace::Kind::kOperation, "scan");
  require_shared_groups(in);
  const std::array inputs{in.x, in.b, in.c, in.log_decay, in.step, in.skip};
  const bool keep = std::ranges::any_of(inputs, node::wants_graph);
  return Mamba2Scan::apply(in.x, in.b, in.c, in.log_decay, in.step, in.skip, documents, keep);
}

at::Tensor continue_mamba2_scan(const Mamba2Inputs& in, at::Tensor& state) {
  const at::NoGradGuard no_grad;
  require_shared_groups(in);
  return run_chunks({in.x, in.b, in.c, in.log_decay, in.step}, in.skip, {}, state, nullptr);
}

}  // namespace sluice::ops
