#include "ops/experts.hpp"

#include "ops/kernel.hpp"
#include "ops/linear.hpp"
#include "ops/node.hpp"
#include "ops/swiglu_rows.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace sluice::ops {
namespace {

/// The rows of a layer: one per token and chosen expert, sorted by expert, then by token, each expert's
/// filled up with empty rows. A slot is the place of a (token, choice) in the routing's [T, k].
struct RowOrder {
  at::Tensor begins;  ///< [E + 1]: rows begins[e] .. begins[e + 1] are expert e's
  at::Tensor slots;   ///< [rows]: slot of each row, -1 for an empty one
  at::Tensor rows;    ///< [T * k]: row of each slot
};

/// Rows that an expert with `count` tokens works on: a multiple of the 16 rows of a matrix tile, and beyond
/// 128 of an eighth of the power of two below. The matrix library compiles a kernel for every number of rows
/// it meets and keeps it, which costs milliseconds and memory; so there must be few numbers.
std::int64_t padded_rows(std::int64_t count) {
  constexpr std::uint64_t kTile = 16;
  const std::uint64_t step = std::max(kTile, std::bit_floor(static_cast<std::uint64_t>(count)) / 8);
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(count) + step - 1) / step * step);
}

/// begins of a RowOrder for [T, k] choices among `expert_count` experts.
at::Tensor padded_begins(const at::Tensor& chosen, std::int64_t expert_count) {
  at::Tensor begins = at::zeros({expert_count + 1}, at::kLong);
  std::int64_t* begin = begins.data_ptr<std::int64_t>();
  const std::int64_t* expert = chosen.data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < chosen.numel(); ++s) {
    SLUICE_ASSERT(expert[s] >= 0 && expert[s] < expert_count, "expert {} of {}", expert[s], expert_count);
    ++begin[expert[s] + 1];
  }
  for (std::int64_t e = 0; e < expert_count; ++e) begin[e + 1] = begin[e] + padded_rows(begin[e + 1]);
  return begins;
}

/// Counting sort, so that rows of one expert stay in token order.
RowOrder order_rows(const at::Tensor& experts, std::int64_t expert_count) {
  const at::Tensor chosen = experts.contiguous();
  const at::Tensor begins = padded_begins(chosen, expert_count);
  const std::int64_t* begin = begins.data_ptr<std::int64_t>();
  RowOrder order{begins, at::full({begin[expert_count]}, -1, at::kLong),
                 at::empty({chosen.numel()}, at::kLong)};
  std::vector<std::int64_t> next(begin, begin + expert_count);
  for (std::int64_t s = 0; s < chosen.numel(); ++s) {
    const std::int64_t row = next[static_cast<std::size_t>(chosen.data_ptr<std::int64_t>()[s])]++;
    order.slots.data_ptr<std::int64_t>()[row] = s;
    order.rows.data_ptr<std::int64_t>()[s] = row;
  }
  return order;
}

/// Rows [begin, begin + count) of an order, taken from the tokens x [T, H] that they belong to; zeros for
/// empty ones.
at::Tensor take_rows(const at::Tensor& x, const RowOrder& order, std::int64_t k, std::int64_t begin,
                     std::int64_t count) {
  const at::Tensor out = at::empty({count, x.size(1)}, x.options());
  const std::int64_t* slot = order.slots.data_ptr<std::int64_t>() + begin;
  const std::size_t row_bytes = static_cast<std::size_t>(x.size(1) * x.element_size());
  const auto* source = static_cast<const std::byte*>(x.data_ptr());
  auto* target = static_cast<std::byte*>(out.data_ptr());
  for (std::int64_t row = 0; row < count; ++row, target += row_bytes) {
    if (slot[row] < 0) {
      std::memset(target, 0, row_bytes);
    } else {
      std::memcpy(target, source + static_cast<std::size_t>(slot[row] / k) * row_bytes, row_bytes);
    }
  }
  return out;
}

/// Calls visit(expert, first row, number of rows) for each expert that has rows.
template <class Visit>
void for_each_expert(const RowOrder& order, Visit&& visit) {
  const std::int64_t* begins = order.begins.data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e + 1 < order.begins.numel(); ++e)
    if (begins[e + 1] > begins[e]) visit(e, begins[e], begins[e + 1] - begins[e]);
}

/// One token's output: its k rows, weighted, added in float32 in the order of its choices.
template <class T>
SLUICE_VECTOR_CLONES void combine_token(const T* rows, const std::int64_t* row, const float* weights,
                                        std::int64_t k, std::int64_t width, float* sum, T* out) {
  std::fill(sum, sum + width, 0.0F);
  for (std::int64_t j = 0; j < k; ++j) {
    const float weight = weights == nullptr ? 1.0F : kernel::rounded<T>(weights[j]);
    const T* source = rows + row[j] * width;
    for (std::int64_t i = 0; i < width; ++i) sum[i] += weight * kernel::load(source[i]);
  }
  for (std::int64_t i = 0; i < width; ++i) out[i] = kernel::store<T>(sum[i]);
}

/// [T, width] from rows [rows, width] of an order; without weights (an undefined tensor) the plain sum.
at::Tensor combine(const at::Tensor& rows, const RowOrder& order, const at::Tensor& weights,
                   std::int64_t tokens) {
  const std::int64_t width = rows.size(1);
  const std::int64_t k = order.rows.numel() / std::max<std::int64_t>(tokens, 1);
  const float* weight = weights.defined() ? weights.data_ptr<float>() : nullptr;
  at::Tensor out = at::empty({tokens, width}, rows.options());
  kernel::dispatch(rows, [&]<class T>(T) {
    at::parallel_for(0, tokens, kernel::grain(width * k), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> sum(static_cast<std::size_t>(width));
      for (std::int64_t t = begin; t < end; ++t)
        combine_token(rows.data_ptr<T>(), order.rows.data_ptr<std::int64_t>() + t * k,
                      weight == nullptr ? nullptr : weight + t * k, k, width, sum.data(),
                      out.data_ptr<T>() + t * width);
    });
  });
  return out;
}

/// Multiplies a row's activation and the gradient of its weighted value by the row's weight; returns the
/// weight's gradient.
template <class T>
SLUICE_VECTOR_CLONES float weigh_row(T* activation, T* grad, float weight, std::int64_t width) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t i = 0; i < width; ++i) {
    const float a = kernel::load(activation[i]);
    const float g = kernel::load(grad[i]);
    dot += a * g;
    activation[i] = kernel::store<T>(a * weight);
    grad[i] = kernel::store<T>(g * weight);
  }
  return dot;
}

/// The same for the rows of one expert, whose slots begin at `slots`. Empty rows have no gradient already.
void weigh_rows(const at::Tensor& activation, const at::Tensor& grad, const std::int64_t* slots,
                const at::Tensor& weights, const at::Tensor& d_weights) {
  const std::int64_t width = activation.size(1);
  const float* weight = weights.data_ptr<float>();
  float* d_weight = d_weights.data_ptr<float>();
  kernel::dispatch(activation, [&]<class T>(T) {
    at::parallel_for(0, activation.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        if (slots[row] >= 0)
          d_weight[slots[row]] =
              weigh_row(activation.data_ptr<T>() + row * width, grad.data_ptr<T>() + row * width,
                        kernel::rounded<T>(weight[slots[row]]), width);
    });
  });
}

/// Weights of a layer and of one of its experts.
struct ExpertWeights {
  Parameter gate_up;
  Parameter down;
  [[nodiscard]] ExpertWeights of(std::int64_t expert) const {
    return {slice(gate_up, expert), slice(down, expert)};
  }

 private:
  static Parameter slice(const Parameter& fused, std::int64_t expert) {
    return {fused.value[expert], fused.grad.defined() ? fused.grad[expert] : at::Tensor()};
  }
};

struct Experts : node::Function<Experts> {
  struct Inputs {
    ExpertWeights parameters;
    at::Tensor experts;
    bool keep;  ///< whether backward will come
  };

  static at::Tensor forward(node::AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const Inputs& inputs) {
    const RowOrder order = order_rows(inputs.experts, inputs.parameters.gate_up.value.size(0));
    const std::int64_t k = inputs.experts.size(1);
    const std::int64_t width = inputs.parameters.down.value.size(2);
    const std::int64_t row_count = order.slots.numel();
    const at::Tensor kept = at::empty({inputs.keep ? row_count : 0, 2 * width}, x.options());
    const at::Tensor outputs = at::empty({row_count, x.size(1)}, x.options());
    for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t count) {
      const ExpertWeights expert = inputs.parameters.of(e);
      const at::Tensor rows = take_rows(x, order, k, begin, count);
      at::Tensor gate_up =
          inputs.keep ? kept.narrow(0, begin, count) : at::empty({count, 2 * width}, x.options());
      at::mm_out(gate_up, rows, expert.gate_up.value.t());
      const at::Tensor activation = at::empty({count, width}, x.options());
      swiglu_rows(gate_up.narrow(1, 0, width), gate_up.narrow(1, width, width), activation);
      at::Tensor output = outputs.narrow(0, begin, count);
      at::mm_out(output, activation, expert.down.value.t());
    });
    context->save_for_backward({x, weights, kept, order.begins, order.slots, order.rows});
    node::keep(context, "gate_up", inputs.parameters.gate_up);
    node::keep(context, "down", inputs.parameters.down);
    return combine(outputs, order, weights, x.size(0));
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads);
};

node::variable_list Experts::backward(node::AutogradContext* context, const node::variable_list& grads) {
  const auto saved = context->get_saved_variables();
  const at::Tensor &x = saved[0], &weights = saved[1], &kept = saved[2];
  const RowOrder order{saved[3], saved[4], saved[5]};
  const ExpertWeights parameters{node::kept(context, "gate_up"), node::kept(context, "down")};
  const at::Tensor d_out = grads[0].contiguous();
  const std::int64_t width = parameters.down.value.size(2);
  const std::int64_t k = weights.size(1);
  at::Tensor d_weights = at::empty_like(weights);
  const at::Tensor d_rows = at::empty({kept.size(0), x.size(1)}, x.options());
  for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t count) {
    const ExpertWeights expert = parameters.of(e);
    const at::Tensor gate = kept.narrow(0, begin, count).narrow(1, 0, width);
    const at::Tensor up = kept.narrow(0, begin, count).narrow(1, width, width);
    const at::Tensor d_outputs = take_rows(d_out, order, k, begin, count);
    const at::Tensor d_activation = at::mm(d_outputs, expert.down.value);
    const at::Tensor activation = at::empty_like(d_activation);
    swiglu_rows(gate, up, activation);
    weigh_rows(activation, d_activation, order.slots.data_ptr<std::int64_t>() + begin, weights, d_weights);
    if (expert.down.grad.defined()) add_transposed_product(expert.down.grad, d_outputs, activation);
    const at::Tensor d_gate_up = at::empty({count, 2 * width}, x.options());
    swiglu_rows_backward(gate, up, d_activation, d_gate_up.narrow(1, 0, width),
                         d_gate_up.narrow(1, width, width));
    if (expert.gate_up.grad.defined())
      add_transposed_product(expert.gate_up.grad, d_gate_up, take_rows(x, order, k, begin, count));
    at::Tensor d_input = d_rows.narrow(0, begin, count);
    at::mm_out(d_input, d_gate_up, expert.gate_up.value);
  });
  return {combine(d_rows, order, {}, x.size(0)), d_weights, {}};
}

}  // namespace

at::Tensor experts(const at::Tensor& x, const Parameter& gate_up, const Parameter& down,
                   const Routing& routing) {
  SLUICE_ASSERT(gate_up.value.size(1) == 2 * down.value.size(2) && gate_up.value.size(2) == x.size(1),
                "experts of {} by {} for rows of {}", gate_up.value.size(1), gate_up.value.size(2),
                x.size(1));
  const bool keep = node::wants_graph(x) || node::wants_graph(routing.weights);
  return Experts::apply(x.contiguous(), routing.weights.contiguous(),
                        Experts::Inputs{{gate_up, down}, routing.experts, keep});
}

}  // namespace sluice::ops
