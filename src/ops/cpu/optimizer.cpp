#include "ops/cpu/optimizer.hpp"

#include "ops/cpu/kernel.hpp"

namespace sluice::ops::cpu {
namespace {

/// AdamWStep as the float32 factors of torch's formula.
struct Factors {
  float decay, beta1_rest, beta2, beta2_rest, root_correction2, eps, step_size, grad_scale;
  explicit Factors(const AdamWStep& step)
      : decay(static_cast<float>(1.0 - step.lr * step.weight_decay)),
        beta1_rest(static_cast<float>(1.0 - step.beta1)),
        beta2(static_cast<float>(step.beta2)),
        beta2_rest(static_cast<float>(1.0 - step.beta2)),
        root_correction2(static_cast<float>(std::sqrt(step.bias_correction2))),
        eps(static_cast<float>(step.eps)),
        step_size(static_cast<float>(step.lr / step.bias_correction1)),
        grad_scale(static_cast<float>(step.grad_scale)) {}
};

SLUICE_VECTOR_CLONES void update(float* master, float* m, float* v, const float* grad, std::int64_t n,
                                 const Factors& factors) {
  const Factors f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * f.grad_scale;
    m[i] += f.beta1_rest * (g - m[i]);
    v[i] = v[i] * f.beta2 + f.beta2_rest * g * g;
    const float denominator = std::sqrt(v[i]) / f.root_correction2 + f.eps;
    master[i] = master[i] * f.decay - f.step_size * m[i] / denominator;
  }
}

template <class T>
SLUICE_VECTOR_CLONES void write_weights(const float* master, T* weights, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) weights[i] = kernel::store<T>(master[i]);
}

/// Elements updated before their weights are written: small enough that they are still in cache.
constexpr std::int64_t kBlock = 4096;

}  // namespace

void adamw_update(float* master, float* m, float* v, const float* grad, std::int64_t n, const AdamWStep& step,
                  void* weights_out, DType weights_dtype) {
  SLUICE_ASSERT(weights_dtype == DType::kFloat32 || weights_dtype == DType::kBFloat16, "weights of {}",
                name_of(weights_dtype));
  const Factors factors(step);
  kernel::for_each_block(n, kBlock, [&](std::int64_t i, std::int64_t count) {
    update(master + i, m + i, v + i, grad + i, count, factors);
    if (weights_out == nullptr) return;
    if (weights_dtype == DType::kBFloat16)
      write_weights(master + i, static_cast<at::BFloat16*>(weights_out) + i, count);
    else
      write_weights(master + i, static_cast<float*>(weights_out) + i, count);
  });
}

void widen_weights(const void* weights, DType weights_dtype, float* master, std::int64_t n) {
  convert_elements(weights, weights_dtype, master, DType::kFloat32, n);
}

}  // namespace sluice::ops::cpu
