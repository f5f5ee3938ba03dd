// Rows of a quantised matrix with their scales as floats, as loops over codes read them. Internal to src/ops.
#pragma once

#include "encoding/coded_rows.hpp"

#include <cstdint>

// GCC 12 warns of the undefined operands with which its own vector functions begin.
#if defined(__GNUC__) && !defined(__clang__)
#define SLUICE_INTRINSICS_BEGIN                                                              \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"") \
      _Pragma("GCC diagnostic ignored \"-Wuninitialized\"")
#define SLUICE_INTRINSICS_END _Pragma("GCC diagnostic pop")
#else
#define SLUICE_INTRINSICS_BEGIN
#define SLUICE_INTRINSICS_END
#endif

namespace sluice::ops::cpu {

/// Rows [begin, begin + count) of some whose blocks are one row high.
[[nodiscard]] inline CodedRows some_of(const CodedRows& rows, std::int64_t begin, std::int64_t count) {
  const Encoding& encoding = *rows.encoding;
  return {&encoding, rows.row + begin, count, rows.codes + encoding.code_bytes(begin * encoding.columns),
          rows.scales + begin * encoding.grid_columns() * size_of(encoding.scale_type)};
}

/// Rows as codes, and the scales of each, `stride` floats apart.
struct CodedTile {
  CodedRows rows;
  const float* scales;
  std::int64_t stride;
  std::int64_t row_bytes = rows.encoding->code_bytes(rows.encoding->columns);  ///< bytes of a row's codes

  /// The rows from number `begin` on.
  [[nodiscard]] CodedTile from(std::int64_t begin) const {
    return {some_of(rows, begin, rows.count - begin), scales + begin * stride, stride, row_bytes};
  }
  [[nodiscard]] std::int64_t columns() const { return rows.encoding->columns; }
};

/// Prefetches codes some tiles ahead in the order of memory: one stream, which the processor's own prefetching
/// follows, where the rows of a tile are several.
class CodesAhead {
 public:
  /// Begins behind tiles of `rows` rows, of which `tile` is the first.
  CodesAhead(const CodedTile& tile, std::int64_t rows)
      : next_(reinterpret_cast<std::uintptr_t>(tile.rows.codes) +
              static_cast<std::uintptr_t>(kTiles * rows * tile.row_bytes)) {}
  /// Fetches the next bytes, at most a cache line.
  void fetch(std::int64_t bytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(next_), /*rw=*/0, /*locality=*/2);
    next_ += static_cast<std::uintptr_t>(bytes);
  }

 private:
  static constexpr std::int64_t kTiles = 4;
  std::uintptr_t next_;  ///< Address, which may lie behind the codes: it is not read.
};

}  // namespace sluice::ops::cpu
