// Matrix products with a weight.
#pragma once

#include "ops/adapters/lora.hpp"
#include "ops/parameter.hpp"

namespace sluice::ops {

/// Whether a pass is for its result, or for the graph alone: what is run again for its backward needs no
/// output.
enum class Purpose : bool { kOutput, kGraph };

/// x [T, in] times the transpose of w [out, in]: [T, out]; zeros if for the graph alone. No bias.
/// The products of a LoRA adapter of w are added, each rounded to x's dtype.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const Weight& w, Purpose purpose = Purpose::kOutput);

}  // namespace sluice::ops
