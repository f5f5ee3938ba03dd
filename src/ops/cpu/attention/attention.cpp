#include "ops/cpu/attention/attention.hpp"

#include "ops/cpu/attention/float_form.hpp"
#include "ops/cpu/attention/tile_form.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/token_ids.hpp"

#include <numbers>
#include <span>
#include <type_traits>
#include <vector>

namespace sluice::ops::cpu {
namespace {

using attention_blocks::Heads;
using attention_blocks::HeadsBackward;
using attention_blocks::HeadsForward;

bool fits_tiles(const at::Tensor& q) { return q.scalar_type() == at::kBFloat16 && multiplies_on_tiles(); }

/// Calls f with a value of the class of numbers that attention takes: std::uint16_t for matrix tiles.
template <class F>
void dispatch_form(const at::Tensor& q, F&& f) {
  if (fits_tiles(q)) return f(std::uint16_t{});
  kernel::dispatch(q, f);
}

/// One key head of a sequence, and the query heads that share it.
struct SharedHead {
  std::int64_t sequence, head;
};

/// The tensors of one pass: q and what is laid out as q [b, L, nq, d], k and v [b, L, nkv, d].
template <class Number>
class Pass {
 public:
  Pass(const AttentionInputs& of, const AttentionRecord& made)
      : of_(of), made_(made), group_(of.q.size(2) / of.k.size(2)) {}

  [[nodiscard]] std::vector<SharedHead> heads() const {
    std::vector<SharedHead> all;
    for (std::int64_t s = 0; s < of_.k.size(0); ++s)
      for (std::int64_t head = 0; head < of_.k.size(2); ++head) all.push_back({s, head});
    return all;
  }
  /// Returns the first number of the shared head in a tensor laid out as q.
  [[nodiscard]] Number* queries(const at::Tensor& x, const SharedHead& of) const {
    return at_head(x, of.sequence, of.head * group_);
  }
  /// Returns the first number of the shared head in a tensor laid out as k.
  [[nodiscard]] Number* keys(const at::Tensor& x, const SharedHead& of) const {
    return at_head(x, of.sequence, of.head);
  }
  [[nodiscard]] Heads<Number> numbers(const SharedHead& of) const {
    const std::int64_t length = of_.k.size(1), width = of_.k.size(3), query = of.head * group_;
    return {{length, width, group_, of_.q.size(2) * width, of_.k.size(2) * width,
             document_of(of_.documents, of.sequence), static_cast<float>(of_.scale),
             made_.logsumexp.template data_ptr<float>() + (of.sequence * of_.q.size(2) + query) * length,
             of_.sinks.defined() ? of_.sinks.template data_ptr<float>() + query : nullptr},
            queries(of_.q, of),
            keys(of_.k, of),
            keys(of_.v, of)};
  }

 private:
  static Number* at_head(const at::Tensor& x, std::int64_t sequence, std::int64_t head) {
    return static_cast<Number*>(x.data_ptr()) + (sequence * x.size(1) * x.size(2) + head) * x.size(3);
  }

  const AttentionInputs& of_;
  const AttentionRecord& made_;
  std::int64_t group_;
};

/// Returns the sum over queries of the sink's probability times D of each query, of one head.
double sum_of_deltas(float sink, const at::Tensor& out, const at::Tensor& d_out, const float* logsumexp) {
  double sum = 0;
  kernel::dispatch(out, [&]<class T>(T) {
    const kernel::Rows<T> rows(out), grads(d_out);
    for (std::int64_t i = 0; i < out.size(0); ++i) {
      // logsumexp is in base 2.
      const float probability = kernel::exponential(sink - logsumexp[i] * std::numbers::ln2_v<float>);
      sum += static_cast<double>(probability * kernel::dot(rows[i], grads[i], out.size(1)));
    }
  });
  return sum;
}

/// Adds the gradient of each head's sink, from the gradient of its output.
void add_sink_gradients(const at::Tensor& sinks, const AttentionRecord& made, const at::Tensor& d_out,
                        const at::Tensor& d_sinks) {
  const std::int64_t sequences = made.out.size(0), length = made.out.size(1), heads = made.out.size(2);
  const auto add_head = [&](std::int64_t head) {
    double sum = 0;
    for (std::int64_t s = 0; s < sequences; ++s)
      sum +=
          sum_of_deltas(sinks.data_ptr<float>()[head], made.out[s].select(1, head), d_out[s].select(1, head),
                        made.logsumexp.data_ptr<float>() + (s * heads + head) * length);
    d_sinks.data_ptr<float>()[head] -= static_cast<float>(sum);
  };
  at::parallel_for(0, heads, kernel::grain(sequences * length * made.out.size(3)),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t head = begin; head < end; ++head) add_head(head);
                   });
}

}  // namespace

void attention(const AttentionInputs& inputs, const AttentionRecord& made, std::int64_t first_query) {
  dispatch_form(inputs.q, [&]<class Number>(Number) {
    const Pass<Number> pass(inputs, made);
    std::vector<HeadsForward<Number>> heads;
    for (const SharedHead& of : pass.heads())
      heads.push_back({pass.numbers(of), pass.queries(made.out, of), first_query});
    const std::span<const HeadsForward<Number>> all = heads;
    if constexpr (std::is_same_v<Number, std::uint16_t>)
      tile_attention(all);
    else
      float_attention(all);
  });
}

void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients) {
  dispatch_form(inputs.q, [&]<class Number>(Number) {
    const Pass<Number> pass(inputs, made);
    std::vector<HeadsBackward<Number>> heads;
    for (const SharedHead& of : pass.heads())
      heads.push_back({pass.numbers(of), pass.queries(made.out, of), pass.queries(d_out, of),
                       pass.queries(gradients.q, of), pass.keys(gradients.k, of),
                       pass.keys(gradients.v, of)});
    const std::span<const HeadsBackward<Number>> all = heads;
    if constexpr (std::is_same_v<Number, std::uint16_t>)
      tile_attention_gradients(all);
    else
      float_attention_gradients(all);
  });
  if (gradients.sinks.defined()) add_sink_gradients(inputs.sinks, made, d_out, gradients.sinks);
}

}  // namespace sluice::ops::cpu
