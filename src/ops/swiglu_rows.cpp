#include "ops/swiglu_rows.hpp"

#include "ops/kernel.hpp"

namespace sluice::ops {
namespace {

template <class T>
SLUICE_VECTOR_CLONES void forward_row(const T* gate, const T* up, T* out, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) {
    const float g = kernel::load(gate[i]);
    out[i] = kernel::store<T>(g * kernel::sigmoid(g) * kernel::load(up[i]));
  }
}

template <class T>
SLUICE_VECTOR_CLONES void backward_row(const T* gate, const T* up, const T* d_out, T* d_gate, T* d_up,
                                       std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) {
    const float g = kernel::load(gate[i]);
    const float d = kernel::load(d_out[i]);
    const float s = kernel::sigmoid(g);
    d_gate[i] = kernel::store<T>(d * kernel::load(up[i]) * s * (1.0F + g * (1.0F - s)));
    d_up[i] = kernel::store<T>(d * g * s);
  }
}

template <class T>
T* row_of(const at::Tensor& matrix, std::int64_t row) {
  return matrix.data_ptr<T>() + row * matrix.stride(0);
}

}  // namespace

void swiglu_rows(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& out) {
  const std::int64_t width = gate.size(1);
  kernel::dispatch(gate, [&]<class T>(T) {
    at::parallel_for(0, gate.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        forward_row(row_of<T>(gate, row), row_of<T>(up, row), row_of<T>(out, row), width);
    });
  });
}

void swiglu_rows_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_out,
                          const at::Tensor& d_gate, const at::Tensor& d_up) {
  const std::int64_t width = gate.size(1);
  kernel::dispatch(gate, [&]<class T>(T) {
    at::parallel_for(0, gate.size(0), kernel::grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        backward_row(row_of<T>(gate, row), row_of<T>(up, row), row_of<T>(d_out, row), row_of<T>(d_gate, row),
                     row_of<T>(d_up, row), width);
    });
  });
}

}  // namespace sluice::ops
