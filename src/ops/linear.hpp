// Matrix products with a weight.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/parameter.hpp"

namespace sluice::ops {

/// Purpose of a pass: its output, or the graph alone, if it is recomputed for its backward and nobody reads
/// the output.
enum class Purpose : bool { kOutput, kGraph };

/// Linear layer without bias: x [T, in] times the transpose of w [out, in], as [T, out]; zeros in a pass for
/// the graph alone. The products of a LoRA adapter of w are added, each rounded to x's dtype.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const Weight& w, Purpose purpose = Purpose::kOutput);

}  // namespace sluice::ops
