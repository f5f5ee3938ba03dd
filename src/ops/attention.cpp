#include "ops/attention.hpp"

#include "ops/kernel.hpp"
#include "ops/node.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <vector>

namespace sluice::ops {
namespace {

/// Scores of one query to its causal probabilities, in place: the first `visible` of `length`, zeros after.
template <class T>
SLUICE_VECTOR_CLONES void softmax_row(T* row, std::int64_t visible, std::int64_t length, float scale,
                                      float* scratch) {
  float largest = -HUGE_VALF;
#pragma omp simd reduction(max : largest)
  for (std::int64_t j = 0; j < visible; ++j) {
    scratch[j] = kernel::rounded<T>(kernel::load(row[j]) * scale);
    largest = scratch[j] > largest ? scratch[j] : largest;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < visible; ++j) {
    scratch[j] = kernel::exponential(scratch[j] - largest);
    sum += scratch[j];
  }
  const float inverse = 1.0F / sum;
  for (std::int64_t j = 0; j < visible; ++j) row[j] = kernel::store<T>(scratch[j] * inverse);
  std::fill(row + visible, row + length, kernel::store<T>(0.0F));
}

/// Gradient of one query's probabilities to that of its unscaled scores, in place.
template <class T>
SLUICE_VECTOR_CLONES void softmax_backward_row(const T* probabilities, T* grad, std::int64_t visible,
                                               std::int64_t length, float scale) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t j = 0; j < visible; ++j) dot += kernel::load(probabilities[j]) * kernel::load(grad[j]);
  for (std::int64_t j = 0; j < visible; ++j)
    grad[j] = kernel::store<T>(kernel::load(probabilities[j]) * (kernel::load(grad[j]) - dot) * scale);
  std::fill(grad + visible, grad + length, kernel::store<T>(0.0F));
}

/// Softmax over scores [nkv, group * L, L]; the rows of each query head go through positions 0 .. L-1.
void causal_softmax(const at::Tensor& scores, double scale) {
  const std::int64_t length = scores.size(2);
  kernel::dispatch(scores, [&]<class T>(T) {
    T* data = scores.data_ptr<T>();
    at::parallel_for(0, scores.size(0) * scores.size(1), kernel::grain(length),
                     [&](std::int64_t begin, std::int64_t end) {
                       std::vector<float> scratch(static_cast<std::size_t>(length));
                       for (std::int64_t row = begin; row < end; ++row)
                         softmax_row(data + row * length, row % length + 1, length, static_cast<float>(scale),
                                     scratch.data());
                     });
  });
}

void causal_softmax_backward(const at::Tensor& probabilities, const at::Tensor& grad, double scale) {
  const std::int64_t length = grad.size(2);
  kernel::dispatch(grad, [&]<class T>(T) {
    const T* p = probabilities.data_ptr<T>();
    T* data = grad.data_ptr<T>();
    at::parallel_for(0, grad.size(0) * grad.size(1), kernel::grain(length),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row)
                         softmax_backward_row(p + row * length, data + row * length, row % length + 1, length,
                                              static_cast<float>(scale));
                     });
  });
}

/// One sequence's heads x [L, heads, d] by shared head: dense [nkv, (heads / nkv) * L, d]. A shared head's
/// queries become the rows of one matrix, so k and v need not be repeated and their gradients sum over the
/// group by themselves.
at::Tensor by_shared_head(const at::Tensor& x, std::int64_t nkv) {
  const std::int64_t length = x.size(0);
  const std::int64_t group = x.size(1) / nkv;
  return x.reshape({length, nkv, group, x.size(2)})
      .permute({1, 2, 0, 3})
      .reshape({nkv, group * length, x.size(2)});
}

/// The way back: writes x [nkv, group * L, d] to one sequence of heads `out` [L, heads, d].
void write_heads(const at::Tensor& x, const at::Tensor& out) {
  const std::int64_t nkv = x.size(0);
  const std::int64_t length = out.size(0);
  const std::int64_t group = out.size(1) / nkv;
  out.view({length, nkv, group, out.size(2)})
      .permute({1, 2, 0, 3})
      .copy_(x.view({nkv, group, length, out.size(2)}));
}

/// out[h] = a[h] b[h]. A loop of plain products: batched ones are half as fast in float32.
void multiply_heads(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  for (std::int64_t head = 0; head < a.size(0); ++head) {
    at::Tensor target = out[head];
    at::mm_out(target, a[head], b[head]);
  }
}

at::Tensor multiply_heads(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  multiply_heads(a, b, out);
  return out;
}

/// Gradients of one sequence, written to d_q [L, nq, d], d_k and d_v [L, nkv, d].
struct SequenceGrads {
  at::Tensor d_q, d_k, d_v;
};

void sequence_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& probabilities, const at::Tensor& d_out, double scale,
                       const SequenceGrads& grads) {
  const std::int64_t nkv = k.size(1);
  const at::Tensor d_rows = by_shared_head(d_out, nkv);
  write_heads(multiply_heads(probabilities.transpose(1, 2), d_rows), grads.d_v);
  const at::Tensor d_scores = multiply_heads(d_rows, by_shared_head(v, nkv).transpose(1, 2));
  causal_softmax_backward(probabilities, d_scores, scale);
  write_heads(multiply_heads(d_scores, by_shared_head(k, nkv)), grads.d_q);
  write_heads(multiply_heads(d_scores.transpose(1, 2), by_shared_head(q, nkv)), grads.d_k);
}

struct Attention : node::Function<Attention> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, double scale, bool keep) {
    const std::int64_t nkv = k.size(2);
    const std::int64_t length = q.size(1);
    const std::int64_t kept_sequences = keep ? q.size(0) : 1;
    const at::Tensor kept = at::empty({kept_sequences, nkv, q.size(2) / nkv * length, length}, q.options());
    at::Tensor out = at::empty_like(q);
    for (std::int64_t sequence = 0; sequence < q.size(0); ++sequence) {
      const at::Tensor scores = kept[keep ? sequence : 0];
      multiply_heads(by_shared_head(q[sequence], nkv), by_shared_head(k[sequence], nkv).transpose(1, 2),
                     scores);
      causal_softmax(scores, scale);
      write_heads(multiply_heads(scores, by_shared_head(v[sequence], nkv)), out[sequence]);
    }
    if (keep) context->save_for_backward({q, k, v, kept});
    context->saved_data["scale"] = scale;
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const double scale = context->saved_data["scale"].toDouble();
    at::Tensor d_q = at::empty_like(saved[0]);
    at::Tensor d_k = at::empty_like(saved[1]);
    at::Tensor d_v = at::empty_like(saved[2]);
    for (std::int64_t s = 0; s < d_q.size(0); ++s)
      sequence_backward(saved[0][s], saved[1][s], saved[2][s], saved[3][s], grads[0][s], scale,
                        {d_q[s], d_k[s], d_v[s]});
    return {d_q, d_k, d_v, {}, {}};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  SLUICE_ASSERT(q.dim() == 4 && k.sizes() == v.sizes() && q.size(2) % k.size(2) == 0,
                "{} query heads cannot share {} key heads", q.size(2), k.size(2));
  const bool keep = node::wants_graph(q) || node::wants_graph(k) || node::wants_graph(v);
  return Attention::apply(q.contiguous(), k.contiguous(), v.contiguous(), scale, keep);
}

}  // namespace sluice::ops
