// Normalisation of rows: by their root mean square, or by their mean and variance.
#pragma once

#include "ops/parameter.hpp"

namespace sluice::ops {

/// What normalises a row, and the factor of the normalised value. All but kLayerNorm are RMS norms.
enum class NormKind {
  kFactor,       ///< weight, after the value is rounded to the dtype: Llama, Qwen3
  kZeroCentred,  ///< 1 + weight in float32, rounded once: Gemma, Qwen3.5
  kUnrounded,    ///< weight in float32, rounded once: gpt-oss
  kLayerNorm,    ///< the same, of the row less its mean: Cohere
};

/// Norm over the last dimension: x / sqrt(mean(x^2) + eps) times the weight [N], for x [..., N], perhaps less its
/// mean, in x's dtype and with the roundings of transformers. The normalised value is computed in float32. For a
/// weight of several rows [n * N], rows of x use these in turn.
[[nodiscard]] at::Tensor row_norm(const at::Tensor& x, const Parameter& weight, double eps,
                                  NormKind kind = NormKind::kFactor);

}  // namespace sluice::ops
