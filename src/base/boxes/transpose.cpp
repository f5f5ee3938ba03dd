#include "base/boxes/transpose.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace sluice {
namespace {

/// Rows and columns of a tile: it stays in the first cache, and a row of it is at least a cache line.
constexpr std::int64_t kTile = 64;

/// Prefetches memory of the next tile, whose rows lie pages apart, so that the processor does not foresee
/// them.
void prefetch(const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at);
}

/// Transposes some lines of a tile: line `first + i` becomes column `first + i` of `tile`, whose rows have
/// kTile elements. Returns their number; the rest is left to the loop over single elements.
template <class T>
std::int64_t turn_lines(const std::byte*, std::int64_t, std::int64_t, T*) {
  return 0;
}

#if defined(__x86_64__)
/// Elements of 2 bytes in a vector, which every processor of this kind has.
constexpr std::int64_t kEight = 8;

/// Transposes 8 x 8 elements.
void turn_eight(const std::byte* from, std::int64_t stride_bytes, std::uint16_t* to) {
  __m128i a[8], b[8], c[8];
  for (std::size_t i = 0; i < 8; ++i)
    a[i] =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + static_cast<std::int64_t>(i) * stride_bytes));
  for (std::size_t i = 0; i < 8; i += 2) {  // interleaves pairs of lines
    b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
    b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
  }
  for (std::size_t i = 0; i < 2; ++i) {  // interleaves groups of four lines
    c[4 * i] = _mm_unpacklo_epi32(b[i], b[i + 2]);
    c[4 * i + 1] = _mm_unpackhi_epi32(b[i], b[i + 2]);
    c[4 * i + 2] = _mm_unpacklo_epi32(b[i + 4], b[i + 6]);
    c[4 * i + 3] = _mm_unpackhi_epi32(b[i + 4], b[i + 6]);
  }
  for (std::size_t i = 0; i < 8; i += 2) {  // interleaves all eight lines
    const std::size_t upper = i / 4 * 4 + i % 4 / 2;
    auto* const row = to + static_cast<std::int64_t>(i) * kTile;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row), _mm_unpacklo_epi64(c[upper], c[upper + 2]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + kTile), _mm_unpackhi_epi64(c[upper], c[upper + 2]));
  }
}

template <>
std::int64_t turn_lines(const std::byte* from, std::int64_t stride_bytes, std::int64_t lines,
                        std::uint16_t* tile) {
  std::int64_t line = 0;
  for (; line + kEight <= lines; line += kEight)
    for (std::int64_t column = 0; column < kTile; column += kEight)
      turn_eight(from + line * stride_bytes + column * 2, stride_bytes, tile + column * kTile + line);
  return line;
}
#endif

/// Transposes elements of T's size, tile by tile.
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
      const std::byte* const first = source.data + (row * source.stride + column) * kSize;
      for (std::int64_t i = 0; next > 0 && i < height; ++i)
        prefetch(first + (i * source.stride + kTile) * kSize, next * kSize);
      const std::int64_t turned =
          width == kTile ? turn_lines(first, source.stride * kSize, height, tile.data()) : 0;
      for (std::int64_t i = turned; i < height; ++i) {
        const std::byte* from = first + i * source.stride * kSize;
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
  if (size_of(source.dtype) == 8) return transpose_as<std::uint64_t>(source, rows, columns, target);
  if (size_of(source.dtype) == 2) return transpose_as<std::uint16_t>(source, rows, columns, target);
  transpose_as<std::uint32_t>(source, rows, columns, target);
}

}  // namespace sluice
