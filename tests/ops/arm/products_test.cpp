// Holds the kernels of products for 64-bit Arm against products in float64: a program without libraries,
// which tests/ops/arm/test.sh compiles for Arm and runs under an emulator. Prints what it compared; ends with 1 at
// the first number that is further off than rounding to float32 can bring it.
#include "ops/cpu/products/arm.hpp"
#include "ops/cpu/products/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace sluice::ops::cpu::products {
namespace {

float float_of(std::uint16_t half) { return std::bit_cast<float>(std::uint32_t{half} << 16); }

/// Lines of bfloat16 numbers of some depth: rows of a left side or columns of a right one. In memory the
/// neighbours of a number are those of its line, or those of its depth.
class Side {
 public:
  Side(std::int64_t lines, std::int64_t depth, bool by_line, std::mt19937& draws)
      : lines_(lines), depth_(depth), by_line_(by_line), stride_((by_line ? depth : lines) + 3) {
    std::normal_distribution<float> normal;
    halves_.resize(static_cast<std::size_t>((by_line ? lines : depth) * stride_));
    for (std::uint16_t& half : halves_)
      half = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(draws)) >> 16);
  }
  [[nodiscard]] float at(std::int64_t line, std::int64_t d) const { return float_of(*place(line, d)); }
  [[nodiscard]] bool by_line() const { return by_line_; }
  /// A part of the lines and of the depth, as it lies in memory.
  [[nodiscard]] Halves part(std::int64_t line, std::int64_t lines, std::int64_t d, std::int64_t depth) const {
    return {place(line, d), by_line_ ? lines : depth, by_line_ ? depth : lines, stride_};
  }
  [[nodiscard]] std::int64_t lines() const { return lines_; }
  [[nodiscard]] std::int64_t depth() const { return depth_; }

 private:
  [[nodiscard]] const std::uint16_t* place(std::int64_t line, std::int64_t d) const {
    return halves_.data() + (by_line_ ? line * stride_ + d : d * stride_ + line);
  }

  std::int64_t lines_, depth_;
  bool by_line_;
  std::int64_t stride_;
  std::vector<std::uint16_t> halves_;
};

/// Sums of a product, with numbers beside them that no product may change.
struct Result {
  Result(std::int64_t rows, std::int64_t columns, float initial)
      : stride(columns + 5), numbers(static_cast<std::size_t>(rows * stride), kBeside) {
    for (std::int64_t row = 0; row < rows; ++row)
      std::fill_n(numbers.data() + row * stride, columns, initial);
  }
  static constexpr float kBeside = 12345;
  std::int64_t stride;
  std::vector<float> numbers;
};

/// Calls multiply(row, rows, column, columns, d, depth, sums) for blocks of a product, as Product does.
template <class Multiply>
Result in_blocks(const Side& left, const Side& right, std::int64_t rows_at_once, std::int64_t columns_at_once,
                 bool adds, const Multiply& multiply) {
  Result out(left.lines(), right.lines(), adds ? 0.5F : -7.0F);
  for (std::int64_t d = 0; d < left.depth(); d += kDepth)
    for (std::int64_t row = 0; row < left.lines(); row += rows_at_once)
      for (std::int64_t column = 0; column < right.lines(); column += columns_at_once) {
        const std::int64_t columns = std::min(columns_at_once, right.lines() - column);
        multiply(row, std::min(rows_at_once, left.lines() - row), column, columns, d,
                 std::min(kDepth, left.depth() - d),
                 Sums{out.numbers.data() + row * out.stride + column, out.stride, columns, adds || d > 0});
      }
  return out;
}

Result by_float32(const ProductKernel& kernel, const Side& left, const Side& right, bool adds) {
  std::vector<float> left_panel(static_cast<std::size_t>(kPackedAtOnce * kLeftStride)),
      right_panel(static_cast<std::size_t>(kDepth * kPackedAtOnce));
  return in_blocks(left, right, kernel.rows, kernel.columns, adds,
                   [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                       std::int64_t d, std::int64_t depth, const Sums& sums) {
                     (left.by_line() ? kernel.widen : kernel.widen_transposed)(
                         left.part(row, rows, d, depth), left_panel.data(), {kLeftStride, kDepth, 0});
                     (right.by_line() ? kernel.widen_transposed : kernel.widen)(
                         right.part(column, columns, d, depth), right_panel.data(),
                         {kernel.columns, kernel.columns, kDepth * kernel.columns});
                     kernel.multiply(left_panel.data(), rows, right_panel.data(), depth, sums);
                   });
}

void pack(const Side& side, const Halves& from, std::uint16_t* panel) {
  (side.by_line() ? arm_bfloat16::pack_rows : arm_bfloat16::pack_columns)(from, panel);
}

Result by_bfloat16(const Side& left, const Side& right, bool adds) {
  constexpr auto kPanel = static_cast<std::size_t>(arm_bfloat16::panel_size(kDepth));
  std::vector<std::uint16_t> left_panel(kPanel), right_panel(kPanel);
  return in_blocks(left, right, arm_bfloat16::kLines, arm_bfloat16::kLines, adds,
                   [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
                       std::int64_t d, std::int64_t depth, const Sums& sums) {
                     pack(left, left.part(row, rows, d, depth), left_panel.data());
                     pack(right, right.part(column, columns, d, depth), right_panel.data());
                     arm_bfloat16::multiply(left_panel.data(), rows, right_panel.data(), depth, sums);
                   });
}

[[noreturn]] void fail(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(1);
}

/// Compares all numbers. The most that rounding can do: half a unit in the last place for each addition, or a
/// whole one where sums are rounded to odd.
double compare(const char* name, const Side& left, const Side& right, bool adds, const Result& out,
               double unit) {
  double largest = 0;
  for (std::int64_t row = 0; row < left.lines(); ++row)
    for (std::int64_t column = 0; column < out.stride; ++column) {
      const float found = out.numbers[static_cast<std::size_t>(row * out.stride + column)];
      const std::string place = std::string(name) + ", " + std::to_string(left.lines()) + " x " +
                                std::to_string(right.lines()) + " x " + std::to_string(left.depth()) +
                                (adds ? ", added" : "") + ", row " + std::to_string(row) + ", column " +
                                std::to_string(column);
      if (column >= right.lines()) {
        if (found != Result::kBeside) fail(place + ": was written, beside the product");
        continue;
      }
      double expected = adds ? 0.5 : 0, magnitude = expected;
      for (std::int64_t d = 0; d < left.depth(); ++d) {
        const double product = double{left.at(row, d)} * right.at(column, d);
        expected += product;
        magnitude += std::abs(product);
      }
      const double bound = unit * static_cast<double>(left.depth() + left.depth() / kDepth + 2) * magnitude;
      const double off = std::abs(found - expected);
      if (!(off <= bound))
        fail(place + ": found " + std::to_string(found) + ", expected " + std::to_string(expected));
      if (magnitude > 0) largest = std::max(largest, off / magnitude);
    }
  return largest;
}

constexpr double kHalfUnit = 0x1p-24, kUnit = 0x1p-23;

/// The largest errors so far, over the sums of magnitudes.
struct Largest {
  double float32 = 0, bfloat16 = 0;
  std::int64_t products = 0;
};

void check(const Side& left, const Side& right, bool adds, Largest& largest) {
  ++largest.products;
  const Result own = by_float32(kNeon, left, right, adds), any = by_float32(kAnyProcessor, left, right, adds);
  largest.float32 = std::max(largest.float32, compare("NEON", left, right, adds, own, kHalfUnit));
  if (std::memcmp(own.numbers.data(), any.numbers.data(), own.numbers.size() * sizeof(float)) != 0)
    fail("NEON: other bits than the loops of any processor");
  if (!arm_bfloat16::serves()) return;
  const Result halves = by_bfloat16(left, right, adds);
  largest.bfloat16 = std::max(largest.bfloat16, compare("BFMMLA", left, right, adds, halves, kUnit));
}

int run() {
  std::mt19937 draws(1);
  Largest largest;
  for (const std::int64_t rows : {1, 2, 3, 7, 8, 9, 17})
    for (const std::int64_t columns : {1, 3, 4, 5, 8, 11, 24})
      for (const std::int64_t depth : {1, 2, 3, 4, 5, 8, 9, 31, 64, 255, 256, 257, 611})
        for (const int form : {0, 1, 2, 3})
          check(Side(rows, depth, form % 2 == 0, draws), Side(columns, depth, form / 2 == 0, draws),
                /*adds=*/(rows + columns + depth + form) % 2 == 0, largest);
  std::printf("%lld products: NEON within %.1e of the sum of magnitudes, ",
              static_cast<long long>(largest.products), largest.float32);
  if (arm_bfloat16::serves())
    std::printf("BFMMLA within %.1e\n", largest.bfloat16);
  else
    std::printf("BFMMLA not run: this processor has no products of bfloat16\n");
  return 0;
}

}  // namespace
}  // namespace sluice::ops::cpu::products

int main() { return sluice::ops::cpu::products::run(); }
