// The optimizer's loops. Internal to src/ops.
#pragma once

#include "ops/buffers/optimizer.hpp"

namespace sluice::ops::cpu {

/// As ops::adamw_update() and ops::widen_weights().
void adamw_update(float* master, float* m, float* v, const float* grad, std::int64_t n, const AdamWStep& step,
                  void* weights_out, DType weights_dtype);
void widen_weights(const void* weights, DType weights_dtype, float* master, std::int64_t n);

}  // namespace sluice::ops::cpu
