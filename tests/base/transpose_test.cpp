#include "base/boxes/transpose.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice {
namespace {

/// Turns a matrix over that lies in a wider one, into another, at addresses that are not aligned.
template <class T>
void expect_transposed(DType dtype, std::int64_t rows, std::int64_t columns) {
  const auto size = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t source_stride = columns + 3, target_stride = rows + 2;
  std::vector<std::byte> source(static_cast<std::size_t>(rows * source_stride * size + 1));
  std::vector<std::byte> target(static_cast<std::size_t>(columns * target_stride * size + 1));
  for (std::int64_t i = 0; i < rows * source_stride; ++i) {
    const auto value = static_cast<T>(i + 1);
    std::memcpy(source.data() + 1 + i * size, &value, sizeof(T));
  }
  transpose_elements({source.data() + 1, dtype, source_stride}, rows, columns,
                     {target.data() + 1, dtype, target_stride});
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = 0; row < target_stride; ++row) {
      T value = 0;
      std::memcpy(&value, target.data() + 1 + (column * target_stride + row) * size, sizeof(T));
      const auto expected = row < rows ? static_cast<T>(row * source_stride + column + 1) : T(0);
      ASSERT_EQ(value, expected) << row << " " << column;
    }
}

TEST(TransposeElements, moves_every_element_of_any_size_and_none_beside_them) {
  for (const std::int64_t rows : {1, 5, 8, 15, 64, 65, 79, 130})
    for (const std::int64_t columns : {1, 7, 63, 64, 129, 136}) {
      expect_transposed<std::uint16_t>(DType::kBFloat16, rows, columns);
      expect_transposed<std::uint32_t>(DType::kFloat32, rows, columns);
      expect_transposed<std::uint64_t>(DType::kFloat64, rows, columns);
    }
}

TEST(TransposeElements, converts_as_it_moves) {
  const std::vector<float> source{1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> target(6);
  transpose_elements({reinterpret_cast<const std::byte*>(source.data()), DType::kFloat32, 3}, 2, 3,
                     {reinterpret_cast<std::byte*>(target.data()), DType::kBFloat16, 2});
  const std::vector<float> expected{1, 4, 2, 5, 3, 6};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(bfloat16_value(target[i]), expected[i]);
}

}  // namespace
}  // namespace sluice
