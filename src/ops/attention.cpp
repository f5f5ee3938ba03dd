#include "ops/attention.hpp"

#include "ops/kernel.hpp"
#include "ops/linear.hpp"
#include "ops/node.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <vector>

namespace sluice::ops {
namespace {

/// Keys [begin, end) of a row of scores that a query sees.
struct Visible {
  std::int64_t begin;
  std::int64_t end;
};

/// Zeros for all that is not seen.
template <class T>
void hide_others(T* row, const Visible& visible, std::int64_t length) {
  std::fill(row, row + visible.begin, kernel::store<T>(0.0F));
  std::fill(row + visible.end, row + length, kernel::store<T>(0.0F));
}

/// Visible scores of one query to its probabilities, in place.
template <class T>
SLUICE_VECTOR_CLONES void softmax_row(T* row, std::int64_t visible, float scale, float* scratch) {
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
}

/// Gradient of one query's visible probabilities to that of its unscaled scores, in place.
template <class T>
SLUICE_VECTOR_CLONES void softmax_backward_row(const T* probabilities, T* grad, std::int64_t visible,
                                               float scale) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t j = 0; j < visible; ++j) dot += kernel::load(probabilities[j]) * kernel::load(grad[j]);
  for (std::int64_t j = 0; j < visible; ++j)
    grad[j] = kernel::store<T>(kernel::load(probabilities[j]) * (kernel::load(grad[j]) - dot) * scale);
}

/// One block of consecutive queries, of all query heads that share one key head, against the keys that any of
/// them sees. Row r of `queries` is position begin + r % positions.
struct Block {
  std::int64_t begin;
  std::int64_t positions;
  const std::int64_t* document;  ///< as Documents::of()

  [[nodiscard]] std::int64_t first_key(std::int64_t position) const {
    return document == nullptr ? 0 : document[position];
  }
  [[nodiscard]] std::int64_t first_key() const { return first_key(begin); }
  [[nodiscard]] std::int64_t keys() const { return begin + positions - first_key(); }
  /// In a row of scores against keys() keys.
  [[nodiscard]] Visible visible(std::int64_t row) const {
    const std::int64_t position = begin + row % positions;
    return {first_key(position) - first_key(), position + 1 - first_key()};
  }
  /// Of keys, values or their gradients [L, d].
  [[nodiscard]] at::Tensor keys_of(const at::Tensor& x) const { return x.narrow(0, first_key(), keys()); }
};

/// Queries of a block. Scores of a block are all of a head's that exist at a time, and the work on keys that
/// no query of a block sees is left out.
constexpr std::int64_t kBlockPositions = 128;

template <class F>
void for_each_block(std::int64_t length, const std::int64_t* document, F&& f) {
  for (std::int64_t begin = 0; begin < length; begin += kBlockPositions)
    f(Block{begin, std::min(kBlockPositions, length - begin), document});
}

/// Softmax over the visible ones of scores [rows, keys], in place.
void causal_softmax(const at::Tensor& scores, const Block& block, double scale) {
  const std::int64_t keys = scores.size(1);
  kernel::dispatch(scores, [&]<class T>(T) {
    T* data = scores.data_ptr<T>();
    at::parallel_for(0, scores.size(0), kernel::grain(keys), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(keys));
      for (std::int64_t row = begin; row < end; ++row) {
        const Visible visible = block.visible(row);
        softmax_row(data + row * keys + visible.begin, visible.end - visible.begin, static_cast<float>(scale),
                    scratch.data());
        hide_others(data + row * keys, visible, keys);
      }
    });
  });
}

void causal_softmax_backward(const at::Tensor& probabilities, const at::Tensor& grad, const Block& block,
                             double scale) {
  const std::int64_t keys = grad.size(1);
  kernel::dispatch(grad, [&]<class T>(T) {
    const T* p = probabilities.data_ptr<T>();
    T* data = grad.data_ptr<T>();
    at::parallel_for(0, grad.size(0), kernel::grain(keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Visible visible = block.visible(row);
        const std::int64_t first = row * keys + visible.begin;
        softmax_backward_row(p + first, data + first, visible.end - visible.begin, static_cast<float>(scale));
        hide_others(data + row * keys, visible, keys);
      }
    });
  });
}

/// Heads of one sequence x [L, heads, d] by shared head: views [nkv][group, L, d].
at::Tensor by_shared_head(const at::Tensor& x, std::int64_t nkv) {
  return x.view({x.size(0), nkv, x.size(1) / nkv, x.size(2)}).permute({1, 2, 0, 3});
}

/// A block's rows of one shared head x [group, L, d], dense: a shared head's queries become the rows of one
/// matrix, so k and v need not be repeated and their gradients sum over the group by themselves.
at::Tensor rows_of(const at::Tensor& x, const Block& block) {
  return x.narrow(1, block.begin, block.positions).reshape({-1, x.size(2)});
}
/// The way back.
void write_rows(const at::Tensor& rows, const at::Tensor& x, const Block& block) {
  x.narrow(1, block.begin, block.positions).copy_(rows.view({x.size(0), block.positions, x.size(2)}));
}

at::Tensor probabilities(const at::Tensor& queries, const at::Tensor& keys, const Block& block,
                         double scale) {
  at::Tensor scores = at::mm(queries, keys.t());
  causal_softmax(scores, block, scale);
  return scores;
}

/// One shared head: queries and output [group, L, d] (views), dense keys and values [L, d].
void head_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                  const std::int64_t* document, const at::Tensor& out) {
  for_each_block(k.size(0), document, [&](const Block& block) {
    const at::Tensor weights = probabilities(rows_of(q, block), block.keys_of(k), block, scale);
    write_rows(at::mm(weights, block.keys_of(v)), out, block);
  });
}

/// Its backward. d_k and d_v are float32 [L, d] and added to; the probabilities are computed again.
void head_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& d_out,
                   double scale, const std::int64_t* document, const at::Tensor& d_q, const at::Tensor& d_k,
                   const at::Tensor& d_v) {
  for_each_block(k.size(0), document, [&](const Block& block) {
    const at::Tensor queries = rows_of(q, block);
    const at::Tensor d_rows = rows_of(d_out, block);
    const at::Tensor keys = block.keys_of(k);
    const at::Tensor weights = probabilities(queries, keys, block, scale);
    add_product(block.keys_of(d_v), weights.t(), d_rows);
    const at::Tensor d_scores = at::mm(d_rows, block.keys_of(v).t());
    causal_softmax_backward(weights, d_scores, block, scale);
    write_rows(at::mm(d_scores, keys), d_q, block);
    add_product(block.keys_of(d_k), d_scores.t(), queries);
  });
}

/// Calls f(sequence, shared head) for all of k [b, L, nkv, d].
template <class F>
void for_each_head(const at::Tensor& k, F&& f) {
  for (std::int64_t sequence = 0; sequence < k.size(0); ++sequence)
    for (std::int64_t head = 0; head < k.size(2); ++head) f(sequence, head);
}

struct Attention : node::Function<Attention> {
  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, double scale, const Documents& documents) {
    const std::int64_t nkv = k.size(2);
    at::Tensor out = at::empty_like(q);
    for_each_head(k, [&](std::int64_t s, std::int64_t head) {
      head_forward(by_shared_head(q[s], nkv)[head], k[s].select(1, head).contiguous(),
                   v[s].select(1, head).contiguous(), scale, documents.of(s),
                   by_shared_head(out[s], nkv)[head]);
    });
    context->save_for_backward({q, k, v});
    context->saved_data["scale"] = scale;
    node::keep(context, documents);
    return out;
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& q = saved[0];
    const at::Tensor& k = saved[1];
    const at::Tensor& v = saved[2];
    const std::int64_t nkv = k.size(2);
    const double scale = context->saved_data["scale"].toDouble();
    const Documents documents = node::kept_documents(context);
    const at::Tensor d_out = grads[0].contiguous();
    at::Tensor d_q = at::empty_like(q);
    at::Tensor d_k = at::empty_like(k);
    at::Tensor d_v = at::empty_like(v);
    const at::Tensor sums = at::empty({2, k.size(1), k.size(3)}, k.options().dtype(at::kFloat));
    for_each_head(k, [&](std::int64_t s, std::int64_t head) {
      sums.zero_();
      head_backward(by_shared_head(q[s], nkv)[head], k[s].select(1, head).contiguous(),
                    v[s].select(1, head).contiguous(), by_shared_head(d_out[s], nkv)[head], scale,
                    documents.of(s), by_shared_head(d_q[s], nkv)[head], sums[0], sums[1]);
      d_k[s].select(1, head).copy_(sums[0]);
      d_v[s].select(1, head).copy_(sums[1]);
    });
    return {d_q, d_k, d_v, {}, {}};
  }
};

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const Documents& documents) {
  SLUICE_ASSERT(q.dim() == 4 && k.sizes() == v.sizes() && q.size(2) % k.size(2) == 0,
                "{} query heads cannot share {} key heads", q.size(2), k.size(2));
  return Attention::apply(q.contiguous(), k.contiguous(), v.contiguous(), scale, documents);
}

}  // namespace sluice::ops
