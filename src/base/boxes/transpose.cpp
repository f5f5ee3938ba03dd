#include "base/boxes/transpose.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice {
namespace {

/// Rows and columns of a tile: it stays in the first cache, and a row of it is at least a line of memory.
constexpr std::int64_t kTile = 64;

/// Asks for memory that the next tile needs: its rows lie pages apart, where the processor foresees nothing.
void prefetch(const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at);
}

/// Elements of T's size, tile by tile.
template <class T>
void transpose_as(const MatrixPlace<const std::byte>& source, std::int64_t rows, std::int64_t columns,
                  const MatrixPlace<std::byte>& target) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t target_size = size_of(target.dtype);
  std::array<T, kTile * kTile> tile;
  std::array<T, kTile> line;
  for (std::int64_t row = 0; row < rows; row += kTile) {
    const std::int64_t height = std::min(kTile, rows - row);
    for (std::int64_t column = 0; column < columns; column += kTile) {
      const std::int64_t width = std::min(kTile, columns - column);
      const std::int64_t next = std::min(kTile, columns - column - width);
      for (std::int64_t i = 0; i < height; ++i) {
        const std::byte* from = source.data + ((row + i) * source.stride + column) * kSize;
        if (next > 0) prefetch(from + kTile * kSize, next * kSize);
        std::memcpy(line.data(), from, static_cast<std::size_t>(width * kSize));
        for (std::int64_t j = 0; j < width; ++j)
          tile[static_cast<std::size_t>(j * kTile + i)] = line[static_cast<std::size_t>(j)];
      }
      for (std::int64_t j = 0; j < width; ++j) {
        std::byte* const to = target.data + ((column + j) * target.stride + row) * target_size;
        if (j < next) prefetch(to + kTile * target.stride * target_size, height * target_size);
        convert_elements(&tile[static_cast<std::size_t>(j * kTile)], source.dtype, to, target.dtype, height);
      }
    }
  }
}

}  // namespace

void transpose_elements(const MatrixPlace<const std::byte>& source, std::int64_t rows, std::int64_t columns,
                        const MatrixPlace<std::byte>& target) {
  SLUICE_ASSERT(is_convertible(source.dtype, target.dtype), "no conversion from {} to {}",
                name_of(source.dtype), name_of(target.dtype));
  if (size_of(source.dtype) == 2) return transpose_as<std::uint16_t>(source, rows, columns, target);
  transpose_as<std::uint32_t>(source, rows, columns, target);
}

}  // namespace sluice
