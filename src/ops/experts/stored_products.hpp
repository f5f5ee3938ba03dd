// Products with the transpose of a weight, which memory may hold as codes. Internal to src/ops.
#pragma once

#include "ops/parameter.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>
#include <span>

namespace sluice::ops {

/// Whether a weight is multiplied with once, or again before another one, as a backward pass does: then a
/// stored matrix becomes numbers as a whole, for both products.
enum class Uses : bool { kOnce, kAgain };

/// out [m, n] = x [m, k] times the transpose of an expert's matrix [n, k] in `fused`. A stored matrix has the
/// bits that its numbers in bfloat16 give.
void matmul_transposed(const at::Tensor& out, const at::Tensor& x, const Parameter& fused,
                       std::int64_t expert, Uses uses);

/// The same for parts of the rows with an expert's matrix each, of fewer than kFewRows rows: all side by side.
void matmul_transposed(const at::Tensor& out, const at::Tensor& x, const Parameter& fused,
                       std::span<const ExpertPart> parts);

/// The same with a weight that is one matrix, as a new tensor.
[[nodiscard]] at::Tensor matmul_transposed(const at::Tensor& x, const Parameter& weight, Uses uses);

}  // namespace sluice::ops
