#include "ops/buffers/optimizer.hpp"

#include "ops/cpu/optimizer.hpp"

namespace sluice::ops {

void adamw_update(float* master, float* m, float* v, const float* grad, std::int64_t n, const AdamWStep& step,
                  void* weights_out, DType weights_dtype) {
  cpu::adamw_update(master, m, v, grad, n, step, weights_out, weights_dtype);
}

void widen_weights(const void* weights, DType weights_dtype, float* master, std::int64_t n) {
  cpu::widen_weights(weights, weights_dtype, master, n);
}

}  // namespace sluice::ops
