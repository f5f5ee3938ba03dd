#include "ops/experts.hpp"

#include "ops/kernel.hpp"
#include "ops/linear.hpp"
#include "ops/node.hpp"
#include "ops/swiglu_rows.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace sluice::ops {
namespace {

/// The rows of a layer: one per token and chosen expert, sorted by expert, then by token. A slot is the place
/// of a (token, choice) in the routing's [T, k].
struct RowOrder {
  at::Tensor begins;  ///< [E + 1]: rows begins[e] .. begins[e + 1] are expert e's
  at::Tensor slots;   ///< [T * k]: slot of each row
  at::Tensor rows;    ///< [T * k]: row of each slot
};

/// Counting sort, so that rows of one expert stay in token order.
RowOrder order_rows(const at::Tensor& experts, std::int64_t expert_count) {
  const std::int64_t slots = experts.numel();
  const at::Tensor chosen = experts.contiguous();
  RowOrder order{at::zeros({expert_count + 1}, at::kLong), at::empty({slots}, at::kLong),
                 at::empty({slots}, at::kLong)};
  const std::int64_t* expert = chosen.data_ptr<std::int64_t>();
  std::int64_t* begins = order.begins.data_ptr<std::int64_t>();
  for (std::int64_t s = 0; s < slots; ++s) {
    SLUICE_ASSERT(expert[s] >= 0 && expert[s] < expert_count, "expert {} of {}", expert[s], expert_count);
    ++begins[expert[s] + 1];
  }
  for (std::int64_t e = 0; e < expert_count; ++e) begins[e + 1] += begins[e];
  std::vector<std::int64_t> next(begins, begins + expert_count);
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int64_t row = next[static_cast<std::size_t>(expert[s])]++;
    order.slots.data_ptr<std::int64_t>()[row] = s;
    order.rows.data_ptr<std::int64_t>()[s] = row;
  }
  return order;
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

/// [T, width] from rows [T * k, width]; without weights (an undefined tensor) the plain sum.
at::Tensor combine(const at::Tensor& rows, const RowOrder& order, const at::Tensor& weights,
                   std::int64_t tokens) {
  const std::int64_t width = rows.size(1);
  const std::int64_t k = rows.size(0) / std::max<std::int64_t>(tokens, 1);
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

/// The same for the rows of one expert, whose slots begin at `slots`.
void weigh_rows(const at::Tensor& activation, const at::Tensor& grad, const std::int64_t* slots,
                const at::Tensor& weights, const at::Tensor& d_weights) {
  const std::int64_t width = activation.size(1);
  const float* weight = weights.data_ptr<float>();
  float* d_weight = d_weights.data_ptr<float>();
  kernel::dispatch(activation, [&]<class T>(T) {
    at::parallel_for(0, activation.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
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
    const at::Tensor tokens = at::floor_divide(order.slots, inputs.experts.size(1));
    const std::int64_t width = inputs.parameters.down.value.size(2);
    const std::int64_t row_count = order.slots.numel();
    const at::Tensor kept = at::empty({inputs.keep ? row_count : 0, 2 * width}, x.options());
    const at::Tensor outputs = at::empty({row_count, x.size(1)}, x.options());
    for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t count) {
      const ExpertWeights expert = inputs.parameters.of(e);
      const at::Tensor rows = at::index_select(x, 0, tokens.narrow(0, begin, count));
      at::Tensor gate_up =
          inputs.keep ? kept.narrow(0, begin, count) : at::empty({count, 2 * width}, x.options());
      at::mm_out(gate_up, rows, expert.gate_up.value.t());
      const at::Tensor activation = at::empty({count, width}, x.options());
      swiglu_rows(gate_up.narrow(1, 0, width), gate_up.narrow(1, width, width), activation);
      at::Tensor output = outputs.narrow(0, begin, count);
      at::mm_out(output, activation, expert.down.value.t());
    });
    context->save_for_backward({x, weights, kept, order.begins, order.slots, order.rows, tokens});
    node::keep(context, "gate_up", inputs.parameters.gate_up);
    node::keep(context, "down", inputs.parameters.down);
    return combine(outputs, order, weights, x.size(0));
  }

  static node::variable_list backward(node::AutogradContext* context, const node::variable_list& grads);
};

node::variable_list Experts::backward(node::AutogradContext* context, const node::variable_list& grads) {
  const auto saved = context->get_saved_variables();
  const at::Tensor &x = saved[0], &weights = saved[1], &kept = saved[2], &tokens = saved[6];
  const RowOrder order{saved[3], saved[4], saved[5]};
  const ExpertWeights parameters{node::kept(context, "gate_up"), node::kept(context, "down")};
  const at::Tensor d_out = grads[0].contiguous();
  const std::int64_t width = parameters.down.value.size(2);
  at::Tensor d_weights = at::empty_like(weights);
  const at::Tensor d_rows = at::empty({kept.size(0), x.size(1)}, x.options());
  for_each_expert(order, [&](std::int64_t e, std::int64_t begin, std::int64_t count) {
    const ExpertWeights expert = parameters.of(e);
    const at::Tensor expert_tokens = tokens.narrow(0, begin, count);
    const at::Tensor gate = kept.narrow(0, begin, count).narrow(1, 0, width);
    const at::Tensor up = kept.narrow(0, begin, count).narrow(1, width, width);
    const at::Tensor d_outputs = at::index_select(d_out, 0, expert_tokens);
    const at::Tensor d_activation = at::mm(d_outputs, expert.down.value);
    const at::Tensor activation = at::empty_like(d_activation);
    swiglu_rows(gate, up, activation);
    weigh_rows(activation, d_activation, order.slots.data_ptr<std::int64_t>() + begin, weights, d_weights);
    if (expert.down.grad.defined()) add_transposed_product(expert.down.grad, d_outputs, activation);
    const at::Tensor d_gate_up = at::empty({count, 2 * width}, x.options());
    swiglu_rows_backward(gate, up, d_activation, d_gate_up.narrow(1, 0, width),
                         d_gate_up.narrow(1, width, width));
    if (expert.gate_up.grad.defined())
      add_transposed_product(expert.gate_up.grad, d_gate_up, at::index_select(x, 0, expert_tokens));
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
