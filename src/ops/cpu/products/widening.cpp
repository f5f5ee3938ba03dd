#include "ops/cpu/products/widening.hpp"

#include "ops/cpu/products/aligned_floats.hpp"
#include "ops/cpu/products/packing.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::ops::cpu {
namespace products {
namespace {

/// Form of a product on vectors of float32.
class WideningForm {
 public:
  using Packed = float;
  struct OnThread {};
  /// Processors fetch what these loops read next on their own.
  struct Ahead {
    Ahead(const Operand& /*side*/, Range /*lines*/, Range /*depth*/, std::int64_t /*blocks*/) {}
  };
  static constexpr bool kSharesLeft = false;

  explicit WideningForm(const ProductKernel& kernel) : kernel_(kernel) {}

  /// The packed rows of a block fit the second-level cache.
  [[nodiscard]] Cut cut(const ProductTarget& /*out*/, std::int64_t /*depth*/) const {
    constexpr std::int64_t kMostRows = 256, kMostColumns = 256;
    static_assert(kDepth % kPackedAtOnce == 0 && kMostRows % kPackedAtOnce == 0);
    return {.rows = kMostRows,
            .columns = kMostColumns,
            .depth = kDepth,
            .block_rows = kernel_.rows,
            .block_columns = kernel_.columns,
            .row_unit = 1,
            .depth_unit = 1,
            .least_work = 1 << 19};
  }
  [[nodiscard]] std::int64_t left_place(std::int64_t row, std::int64_t /*depth*/) const {
    return row * kLeftStride;
  }
  [[nodiscard]] std::int64_t right_place(std::int64_t column, std::int64_t /*depth*/) const {
    return column * kDepth;
  }

  void pack(const Operand& side, OperandSide of, Range lines, Range depth, float* to) const {
    const Runs runs = of == OperandSide::kLeft
                          ? Runs{kLeftStride, kDepth, 0}
                          : Runs{kernel_.columns, kernel_.columns, kDepth * kernel_.columns};
    products::pack(kernel_, side, of, lines, depth, to, runs);
  }

  void multiply(const float* left, std::int64_t rows, const float* right, std::int64_t columns,
                std::int64_t depth, const ProductTarget& out, Ahead& /*ahead*/) const {
    for (std::int64_t column = 0; column < columns; column += kernel_.columns)
      kernel_.multiply(left, rows, right + right_place(column, depth), depth,
                       {static_cast<float*>(out.data) + column, out.stride,
                        std::min(kernel_.columns, columns - column), out.adds});
  }

  /// Sums of bfloat16 are float32 until all of the depth is added.
  template <class Compute>
  void with_sums(const ProductTarget& out, std::int64_t rows, std::int64_t columns, Compute&& compute) const {
    if (out.is_float) return compute(out);
    static thread_local AlignedFloats kept;
    const std::int64_t stride = round_up(columns, kernel_.columns);
    float* const sums = kept.at_least(rows * stride);
    auto* const target = static_cast<std::uint16_t*>(out.data);
    if (out.adds) kernel_.widen({target, rows, columns, out.stride}, sums, {stride, columns, 0});
    compute(ProductTarget{sums, stride, true, out.adds});
    for (std::int64_t row = 0; row < rows; ++row)
      kernel_.round(sums + row * stride, columns, target + row * out.stride);
  }

 private:
  const ProductKernel& kernel_;
};

}  // namespace
}  // namespace products

void widening_matmul(const products::ProductKernel& kernel, const ProductTarget& out,
                     const products::Operand& left, const products::Operand& right) {
  const products::WideningForm form(kernel);
  products::Product<products::WideningForm>(form, out, left, right).compute();
}

}  // namespace sluice::ops::cpu
