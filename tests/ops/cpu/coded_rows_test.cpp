#include "ops/cpu/coded_rows.hpp"

#include "encoding/dequantise.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/onednn_matmul.hpp"
#include "ops/matmul.hpp"
#include "ops/threads.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

namespace sluice::ops {
namespace {

/// A matrix of drawn codes and scales.
class CodedMatrix {
 public:
  CodedMatrix(Encoding encoding, std::int64_t rows, std::int64_t columns, unsigned seed)
      : encoding_(encoding), draws_(seed) {
    encoding_.rows = rows;
    encoding_.columns = columns;
    if (encoding_.block_rows == 0) encoding_.block_rows = 1;
    if (encoding_.block_columns == 0) encoding_.block_columns = columns;
    encoding_.scale_count = encoding_.grid_rows() * encoding_.grid_columns();
    codes_.resize(static_cast<std::size_t>(encoding_.code_bytes(rows * columns)));
    for (std::byte& code : codes_) code = static_cast<std::byte>(draws_());
    scales_.resize(static_cast<std::size_t>(encoding_.scale_bytes()));
    for (std::int64_t i = 0; i < encoding_.scale_count; ++i) set_scale(i, draw_scale());
  }

  [[nodiscard]] CodedRows rows() const {
    return {&encoding_, 0, encoding_.rows, codes_.data(), scales_.data()};
  }
  [[nodiscard]] const Encoding& encoding() const { return encoding_; }
  /// The numbers in bfloat16, as an operation gets them that knows no codes.
  [[nodiscard]] at::Tensor numbers() const {
    at::Tensor all = at::empty({encoding_.rows, encoding_.columns}, at::kBFloat16);
    dequantise(encoding_, {0, all.numel()}, codes_.data(), scales_.data(), DType::kBFloat16,
               static_cast<std::byte*>(all.data_ptr()));
    return all;
  }
  /// The numbers before they are rounded, and how far a table of 8-bit integers may be from each.
  struct Number {
    double value, table_error;
  };
  [[nodiscard]] Number number(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * encoding_.columns + column;
    const double scale = scale_of(row * encoding_.grid_columns() + column / encoding_.block_columns);
    const auto byte = std::to_integer<unsigned>(
        codes_[static_cast<std::size_t>(encoding_.code_bytes(at - at % 2)) +
               (encoding_.codes == Codes::kInt8 ? static_cast<std::size_t>(at % 2) : 0)]);
    if (encoding_.codes == Codes::kInt8) return {static_cast<std::int8_t>(byte) * scale, 0};
    const double code = numbers_of(encoding_.codes)[byte >> 4 * (at % 2) & 15];
    return {code * scale, encoding_.codes == Codes::kNormalFloat4 ? std::abs(scale) / 254 : 0};
  }
  void set_scale(std::int64_t number, float value) {
    std::byte* const at = scales_.data() + encoding_.scale_bytes({0, number});
    if (size_of(encoding_.scale_type) == 1)
      return void(*at = static_cast<std::byte>(draws_() % 16 + (is_e4m3() ? 40 : 115)));
    const at::Tensor scale =
        at::full({1}, value, encoding_.scale_type == DType::kBFloat16 ? at::kBFloat16 : at::kFloat);
    std::memcpy(at, scale.data_ptr(), static_cast<std::size_t>(size_of(encoding_.scale_type)));
  }

 private:
  [[nodiscard]] bool is_e4m3() const { return encoding_.scale_type == DType::kFloat8E4M3; }
  [[nodiscard]] double scale_of(std::int64_t number) const {
    float scale = 0;
    read_scales(encoding_, scales_.data() + encoding_.scale_bytes({0, number}), 1, &scale);
    return scale;
  }
  float draw_scale() {
    return std::ldexp(1 + static_cast<float>(draws_() % 1000) / 1000, -static_cast<int>(draws_() % 9));
  }

  Encoding encoding_;
  std::mt19937 draws_;
  std::vector<std::byte> codes_, scales_;
};

std::vector<Encoding> forms() {
  const auto form = [](Codes codes, DType scales, std::int64_t group) {
    return Encoding{.codes = codes, .scale_type = scales, .block_columns = group};
  };
  Encoding nvfp4 = form(Codes::kFloat4E2M1, DType::kFloat8E4M3, kNvfp4Group);
  nvfp4.tensor_scale = {.factor = 0.75F, .divisor = 3};
  return {form(Codes::kInt4, DType::kBFloat16, 32),
          form(Codes::kInt4, DType::kFloat32, 128),
          form(Codes::kInt4, DType::kFloat32, 0),
          form(Codes::kFloat4E2M1, DType::kUInt8, kMxfp4Group),
          nvfp4,
          form(Codes::kInt8, DType::kFloat32, 0),
          form(Codes::kNormalFloat4, DType::kFloat32, 64)};
}

at::Tensor drawn_rows(std::int64_t rows, std::int64_t columns, at::ScalarType dtype) {
  return at::randn({rows, columns}, at::kFloat).to(dtype);
}

/// Whether two tensors have the same bits, where both are numbers, and NaN in the same places.
bool are_same(const at::Tensor& a, const at::Tensor& b) {
  return at::isnan(a).equal(at::isnan(b)) && a.nan_to_num(0, 1, 2).equal(b.nan_to_num(0, 1, 2));
}

/// Products of x with parts of a matrix below each other, and whether there was a loop for them.
struct Result {
  at::Tensor out;
  bool is_computed;
};
Result multiply(const at::Tensor& x, std::initializer_list<const CodedMatrix*> matrices, Products products,
                at::ScalarType dtype) {
  std::vector<CodedRows> parts;
  std::int64_t count = 0;
  for (const CodedMatrix* matrix : matrices) {
    parts.push_back(matrix->rows());
    count += parts.back().count;
  }
  at::Tensor out = at::full({x.size(0), count}, 7, dtype);
  const bool is_computed =
      cpu::multiply_coded_rows(out, x, std::array{Range{0, x.size(0)}}, std::array{parts}, products);
  return {out, is_computed};
}

TEST(MatmulOfCodes, has_the_bits_of_a_product_with_the_same_numbers_in_bfloat16) {
  for (const Encoding& form : forms())
    for (const std::int64_t columns : {2, 32, 48, 64, 70, 128, 304, 768})
      for (const std::int64_t count : {1, 6, 21}) {
        const CodedMatrix matrix(form, count, columns, 1);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 15}) {
          const at::Tensor x = drawn_rows(rows, columns, at::kBFloat16);
          const Result result = multiply(x, {&matrix}, Products::kExact, at::kBFloat16);
          EXPECT_TRUE(result.is_computed || !cpu::has_tiles());
          if (!result.is_computed) continue;
          EXPECT_TRUE(result.out.equal(ops::matmul(x, matrix.numbers().t())))
              << matrix.encoding().text() << ", " << rows << " x " << columns << " x " << count;
        }
      }
}

TEST(MatmulOfCodes, has_those_bits_under_scales_that_make_no_normal_numbers) {
  for (const Encoding& form : forms()) {
    if (size_of(form.scale_type) == 1) continue;
    for (const float scale : {0.0F, -0.5F, 0x1p-124F, 0x1.fp-127F, 0x1p-133F, 3e38F, HUGE_VALF, NAN}) {
      CodedMatrix matrix(form, 9, 256, 2);
      for (std::int64_t i = 0; i < matrix.encoding().scale_count; i += 3) matrix.set_scale(i, scale);
      const at::Tensor x = drawn_rows(3, 256, at::kBFloat16);
      const Result result = multiply(x, {&matrix}, Products::kExact, at::kFloat);
      const at::Tensor expected = at::empty({3, 9}, at::kFloat);
      ops::matmul(expected, x, matrix.numbers().t());
      if (!result.is_computed) continue;
      EXPECT_TRUE(are_same(result.out, expected)) << matrix.encoding().text() << " " << scale;
    }
  }
}

TEST(MatmulOfCodes, side_by_side_has_the_bits_of_one_product_at_a_time) {
  constexpr std::int64_t kMatrixRows = 500;  // Rows of a matrix; three threads begin within one.
  constexpr std::array kRanges{Range{0, 1}, Range{1, 8}, Range{8, 10}};
  int computed = 0;
  for (const Encoding& form : forms())
    for (const Products products : {Products::kExact, Products::kInt8}) {
      const CodedMatrix matrices[] = {
          {form, kMatrixRows, 192, 3}, {form, kMatrixRows, 192, 4}, {form, kMatrixRows, 192, 5}};
      std::vector<std::vector<CodedRows>> rows;
      for (const CodedMatrix& matrix : matrices) rows.push_back({matrix.rows()});
      const at::Tensor x = drawn_rows(10, 192, at::kBFloat16),
                       out = at::full({10, kMatrixRows}, 7, at::kFloat);
      for (const int threads : {1, 3}) {
        const Threads some(threads);
        if (!cpu::multiply_coded_rows(out, x, kRanges, rows, products)) continue;
        ++computed;
        for (std::size_t i = 0; i < kRanges.size(); ++i) {
          const at::Tensor own = x.narrow(0, kRanges[i].begin, kRanges[i].count());
          EXPECT_TRUE(out.narrow(0, kRanges[i].begin, kRanges[i].count())
                          .equal(multiply(own, {&matrices[i]}, products, at::kFloat).out))
              << form.text() << ", product " << i << ", " << threads << " threads";
        }
      }
    }
  EXPECT_TRUE(computed > 0 || cpu::exact_forms().empty());
}

TEST(MatmulOfCodes, takes_matrices_that_were_published_apart) {
  for (const Encoding& form : forms())
    for (const Products products : {Products::kExact, Products::kInt8}) {
      const CodedMatrix gate(form, 37, 192, 3), up(form, 37, 192, 4);
      const at::Tensor x = drawn_rows(2, 192, at::kBFloat16);
      const Result both = multiply(x, {&gate, &up}, products, at::kBFloat16);
      const at::Tensor expected = at::cat({multiply(x, {&gate}, products, at::kBFloat16).out,
                                           multiply(x, {&up}, products, at::kBFloat16).out},
                                          1);
      EXPECT_TRUE(both.out.equal(expected)) << form.text();
    }
}

TEST(MatmulOfCodes, leaves_forms_without_a_loop_to_others) {
  const at::Tensor x = drawn_rows(1, 64, at::kBFloat16);
  for (const Products products : {Products::kExact, Products::kInt8}) {
    const CodedMatrix float8({.codes = Codes::kFloat8E4M3, .scale_type = DType::kFloat32}, 8, 64, 5);
    const CodedMatrix odd_groups({.codes = Codes::kInt4, .scale_type = DType::kFloat32, .block_columns = 24},
                                 8, 64, 6);
    for (const CodedMatrix* matrix : {&float8, &odd_groups}) {
      const Result result = multiply(x, {matrix}, products, at::kBFloat16);
      EXPECT_FALSE(result.is_computed);
      EXPECT_TRUE(result.out.eq(7).all().item<bool>());
    }
  }
}

/// Forms that few rows meet as codes, and those that become numbers first.
std::vector<Encoding> all_forms() {
  std::vector<Encoding> all = forms();
  for (const std::int64_t rows : {16, 1})
    for (const std::int64_t columns : {32, 0})
      all.push_back({.codes = Codes::kFloat8E4M3,
                     .scale_type = DType::kFloat32,
                     .block_rows = rows,
                     .block_columns = columns});
  all.push_back({.codes = Codes::kInt4, .scale_type = DType::kFloat32, .block_columns = 24});
  return all;
}

TEST(MatmulOfCodes, of_many_rows_has_the_bits_of_a_product_with_the_same_numbers_in_bfloat16) {
  struct Shape {
    std::int64_t rows, columns, count;
  };
  for (const Encoding& form : all_forms())
    for (const auto& [rows, columns, count] :
         {Shape{17, 64, 21}, {70, 318, 90}, {33, 700, 300}, {64, 2048, 320}, {530, 320, 290}}) {
      const CodedMatrix gate(form, count - 17, columns, 3), up(form, 17, columns, 4);
      const std::vector<CodedRows> parts{gate.rows(), up.rows()};
      const at::Tensor x = drawn_rows(rows, columns, at::kBFloat16);
      const at::Tensor weight = at::cat({gate.numbers(), up.numbers()}, 0);
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
        for (const int count_of_threads : {1, 2}) {
          const Threads threads(count_of_threads);
          const at::Tensor out = at::full({rows, count}, 7, dtype), expected = at::empty_like(out);
          if (!cpu::matmul_of_codes(out, x, parts)) {
            EXPECT_TRUE(out.eq(7).all().item<bool>());
            EXPECT_TRUE(cpu::onednn_has_products());
            continue;
          }
          ops::matmul(expected, x, weight.t());
          EXPECT_TRUE(are_same(out, expected)) << gate.encoding().text() << ", " << rows << " x " << columns;
        }
    }
}

TEST(MatmulOfCodes, leaves_rows_that_begin_within_a_byte_to_others) {
  const CodedMatrix matrix(forms().front(), 40, 33 * 2, 5);
  CodedRows odd = matrix.rows();
  Encoding encoding = matrix.encoding();
  encoding.columns = 33;
  encoding.rows = odd.count = 80;
  odd.encoding = &encoding;
  const at::Tensor x = drawn_rows(40, 33, at::kBFloat16), out = at::full({40, 80}, 7, at::kBFloat16);
  EXPECT_FALSE(cpu::matmul_of_codes(out, x, {&odd, 1}));
  EXPECT_TRUE(out.eq(7).all().item<bool>());
}

/// Most that a product of a row with rounded integers may differ from one without rounding: half an integer's
/// worth of each unit for each weight, what a table is off, and the rounding of sums in float32.
double bound_of(const CodedMatrix& matrix, const at::Tensor& x, std::int64_t weight, double& exact) {
  const std::int64_t columns = x.size(0), unit = matrix.encoding().block_columns == 16 ? 16 : 32;
  double bound = 0, magnitude = 0;
  exact = 0;
  for (std::int64_t begin = 0; begin < columns; begin += unit) {
    const std::int64_t end = std::min(begin + unit, columns);
    const double largest = x.narrow(0, begin, end - begin).abs().max().item<double>();
    for (std::int64_t i = begin; i < end; ++i) {
      const CodedMatrix::Number number = matrix.number(weight, i);
      const double value = x[i].item<double>();
      exact += number.value * value;
      magnitude += std::abs(number.value * value) + largest * (std::abs(number.value) + number.table_error);
      bound += largest / 254 * (std::abs(number.value) + number.table_error) +
               number.table_error * std::abs(value);
    }
  }
  return bound + magnitude * 1e-4;
}

TEST(MatmulOfCodes, with_rounded_rows_is_as_near_as_their_integers) {
  for (const Encoding& form : forms())
    for (const std::int64_t columns : {2, 48, 70, 320})
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        const CodedMatrix matrix(form, 5, columns, 7);
        const at::Tensor x = drawn_rows(7, columns, dtype);
        const Result result = multiply(x, {&matrix}, Products::kInt8, at::kFloat);
        if (cpu::int8_means().empty()) continue;
        ASSERT_TRUE(result.is_computed);
        for (std::int64_t row = 0; row < x.size(0); ++row)
          for (std::int64_t weight = 0; weight < 5; ++weight) {
            double exact = 0;
            const double bound = bound_of(matrix, x[row].to(at::kDouble), weight, exact);
            EXPECT_NEAR(result.out[row][weight].item<double>(), exact, bound)
                << matrix.encoding().text() << ", " << columns;
          }
      }
}

TEST(MatmulOfCodes, with_rounded_rows_is_the_same_for_a_row_whatever_lies_beside_it) {
  for (const Encoding& form : forms()) {
    const CodedMatrix matrix(form, 11, 320, 8);
    const at::Tensor x = drawn_rows(7, 320, at::kBFloat16);
    const at::Tensor together = multiply(x, {&matrix}, Products::kInt8, at::kFloat).out;
    for (std::int64_t row = 0; row < x.size(0); ++row)
      EXPECT_TRUE(
          multiply(x.narrow(0, row, 1), {&matrix}, Products::kInt8, at::kFloat).out[0].equal(together[row]))
          << row;
  }
}

TEST(MatmulOfCodes, with_rounded_rows_keeps_what_is_no_number) {
  for (const Encoding& form : forms()) {
    const CodedMatrix matrix(form, 4, 64, 9);
    const at::Tensor x = drawn_rows(1, 64, at::kBFloat16);
    for (const float broken : {NAN, HUGE_VALF}) {
      x[0][33] = broken;
      const Result result = multiply(x, {&matrix}, Products::kInt8, at::kFloat);
      if (!result.is_computed || cpu::int8_means().empty()) continue;
      EXPECT_TRUE(at::isnan(result.out).all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace sluice::ops
