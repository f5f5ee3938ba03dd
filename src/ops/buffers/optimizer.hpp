// Updates of flat shards, in one pass over memory. Arrays lie on compute_device().
#pragma once

#include "base/dtype.hpp"

#include <cstdint>

namespace sluice::ops {

/// What one AdamW step needs beside the numbers themselves.
struct AdamWStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double bias_correction1 = 1;  ///< 1 - beta1^t, t = 1 for the first step
  double bias_correction2 = 1;  ///< 1 - beta2^t
  double grad_scale = 1;        ///< multiplies the gradient: the clip factor
};

/// One step of torch.optim.AdamW on n elements, all threads at work. `weights_out` receives the new master
/// values rounded to `weights_dtype` (kFloat32 or kBFloat16); null if the master values are the weights.
void adamw_update(float* master, float* m, float* v, const float* grad, std::int64_t n, const AdamWStep& step,
                  void* weights_out, DType weights_dtype);

/// master = n weights of `weights_dtype`, as float32.
void widen_weights(const void* weights, DType weights_dtype, float* master, std::int64_t n);

}  // namespace sluice::ops
