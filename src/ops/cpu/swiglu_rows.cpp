#include "ops/cpu/swiglu_rows.hpp"

#include "ops/arithmetic/gate.hpp"
#include "ops/cpu/gate_rows.hpp"
#include "ops/cpu/kernel.hpp"

namespace sluice::ops::cpu {
namespace {

template <class T, class Gate>
SLUICE_VECTOR_CLONES void forward_row(const T* gate, const T* up, T* out, std::int64_t width, Gate form) {
  for (std::int64_t i = 0; i < width; ++i) {
    const float g = form.cut_gate(kernel::load(gate[i]));
    const float activation = form.cut_activation(g * kernel::sigmoid(form.exponent(g)));
    out[i] = kernel::store_result<T>(activation * form.factor(kernel::load(up[i])));
  }
}

template <class T, class Gate>
SLUICE_VECTOR_CLONES void backward_row(const T* gate, const T* up, const T* d_out, T* d_gate, T* d_up,
                                       std::int64_t width, Gate form) {
  for (std::int64_t i = 0; i < width; ++i) {
    const float g = kernel::load(gate[i]), u = kernel::load(up[i]), d = kernel::load(d_out[i]);
    const float cut = form.cut_gate(g), exponent = form.exponent(cut), s = kernel::sigmoid(exponent);
    const float by_gate = d * form.factor(u) * s * (1.0F + form.growth(cut, exponent) * (1.0F - s));
    const float activation = cut * s;
    d_gate[i] = kernel::store_result<T>(form.through_gate(g, activation, by_gate));
    d_up[i] = kernel::store_result<T>(form.through_up(u, d * form.cut_activation(activation)));
  }
}

}  // namespace

void swiglu_rows(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out, const Gating& gating) {
  const std::int64_t width = gate.size(1);
  kernel::dispatch(gate, [&]<class T>(T) {
    const GateRows<T> gates(gate, up);
    const kernel::Rows<T> outs(out);
    arithmetic::with_gate(gating, [&](auto form) {
      at::parallel_for(0, gate.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          gates.read(row, [&](std::int64_t first, std::int64_t count, const T* g, const T* u) {
            forward_row(g, u, outs[row] + first, count, form);
          });
      });
    });
  });
}

void swiglu_rows_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_out,
                          const at::Tensor& d_gate, const at::Tensor& d_up, const Gating& gating) {
  const std::int64_t width = gate.size(1);
  kernel::dispatch(gate, [&]<class T>(T) {
    const kernel::Rows<T> gates(gate), ups(up), d_outs(d_out), d_gates(d_gate), d_ups(d_up);
    arithmetic::with_gate(gating, [&](auto form) {
      at::parallel_for(0, gate.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          backward_row(gates[row], ups[row], d_outs[row], d_gates[row], d_ups[row], width, form);
      });
    });
  });
}

}  // namespace sluice::ops::cpu
