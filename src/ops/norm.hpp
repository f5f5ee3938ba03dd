// Root-mean-square normalisation.
#pragma once

#include "ops/parameter.hpp"

namespace sluice::ops {

/// How a norm's weight enters: the factor of the normalised value.
enum class NormWeight {
  kFactor,       ///< weight, after the value is rounded to the dtype: Llama, Qwen3
  kZeroCentred,  ///< 1 + weight in float32, rounded once: Gemma, Qwen3.5
  kUnrounded,    ///< weight in float32, rounded once: gpt-oss
};

/// RMS norm over the last dimension: x / sqrt(mean(x^2) + eps) times the weight [N], for x [..., N], in x's
/// dtype and with the roundings of transformers. The normalised value is computed in float32. For a weight of
/// several rows [n * N], rows of x use these in turn.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double eps,
                                  NormWeight kind = NormWeight::kFactor);

}  // namespace sluice::ops
