// Products of few rows with a weight that memory holds as codes and scales: each code is read once and goes
// straight into the multiplication. Internal to src/ops.
#pragma once

#include "base/range.hpp"
#include "encoding/coded_rows.hpp"
#include "ops/parameter.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::ops::cpu {

/// Multiplies each range of the rows of a [m, k] by the transpose of its own matrix, whose n rows are those of its
/// parts, into the same rows of out [m, n].
/// Exact products have the bits that multiply_few_rows() gives with the same numbers in bfloat16. Returns whether
/// this processor has a loop for rows of this form; if not, nothing is computed, and the rows must become numbers
/// first.
[[nodiscard]] bool multiply_coded_rows(const at::Tensor& out, const at::Tensor& a,
                                       std::span<const Range> ranges,
                                       std::span<const std::vector<CodedRows>> matrices, Products products);

/// By which instructions Products::kInt8 are computed: "VNNI", "AVX2", or "" if not at all, so that products
/// are exact.
[[nodiscard]] std::string_view int8_means();

/// Which codes multiply_coded_rows() multiplies exactly as they lie: "INT4, MXFP4 and NF4", or "" if none.
[[nodiscard]] std::string_view exact_forms();

}  // namespace sluice::ops::cpu
