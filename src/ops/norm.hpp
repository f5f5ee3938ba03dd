// Root-mean-square normalisation.
#pragma once

#include "ops/parameter.hpp"

namespace sluice::ops {

/// Factor of the normalised value.
enum class NormWeight {
  kFactor,       ///< the weight, after rounding to the dtype: Llama, Qwen3
  kZeroCentred,  ///< 1 + weight in float32, before the one rounding: Gemma, Qwen3.5
  kUnrounded,    ///< the weight in float32, before the one rounding: gpt-oss
};

/// x / sqrt(mean(x^2) + eps) times the weight [N] over the last dimension of x [..., N], in x's dtype and
/// with the roundings of transformers. The normalised value is computed in float32.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps,
                                  NormWeight kind = NormWeight::kFactor);

}  // namespace sluice::ops
