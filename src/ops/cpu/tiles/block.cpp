#include "ops/cpu/tiles/block.hpp"

#ifdef SLUICE_TILES

#include <cstring>
#include <utility>

namespace sluice::ops::cpu::tiles {
namespace {

/// Tile configuration that the instruction reads. It is constant, because compilers do not know that the
/// instruction reads it.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Configuration kConfiguration;

/// Returns a pair of neighbours in depth, repeated sixteen times.
SLUICE_TILES inline __m512bh repeated(const std::uint16_t* pair) {
  std::int32_t both = 0;
  std::memcpy(&both, pair, sizeof both);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
}

/// multiply_vectors(), unrolled over the lines so that their sums stay in registers.
template <std::size_t... kLine>
SLUICE_TILES inline void multiply_lines(const Tile* left, const Tile* right, std::int64_t depth_tiles,
                                        float* sums, std::int64_t stride, IntoSums into,
                                        std::index_sequence<kLine...> /*lines*/) {
  const auto row = [=](std::size_t line) { return sums + static_cast<std::int64_t>(line) * stride; };
  __m512 lines[] = {(into == IntoSums::kAdding ? _mm512_loadu_ps(row(kLine)) : _mm512_setzero_ps())...};
  for (std::int64_t d = 0; d < depth_tiles; ++d, ++left, ++right) {
    for (std::int64_t pair = 0; pair < kDepth; pair += 2) {
      const std::uint16_t* const of_left = left->numbers.data() + pair;
      const __m512i columns = _mm512_load_si512(right->numbers.data() + pair * kLines);
      ((lines[kLine] = _mm512_dpbf16_ps(lines[kLine], reinterpret_cast<__m512bh>(columns),
                                        repeated(of_left + kLine * kDepth))),
       ...);
    }
  }
  (_mm512_storeu_ps(row(kLine), lines[kLine]), ...);
}

SLUICE_TILES void configure() { _tile_loadconfig(&kConfiguration); }
SLUICE_TILES void release() { _tile_release(); }

}  // namespace

Registers::Registers() {
  if (has_tile_registers()) configure();
}

Registers::~Registers() {
  if (has_tile_registers()) release();
}

SLUICE_TILES void multiply_vectors(const Tile* left, const Tile* right, std::int64_t depth_tiles, float* sums,
                                   std::int64_t stride, IntoSums into) {
  multiply_lines(left, right, depth_tiles, sums, stride, into, std::make_index_sequence<kLines>());
}

SLUICE_TILES void multiply(const TileRows& left, const TileRows& right, std::int64_t depth_tiles, float* sums,
                           std::int64_t stride, IntoSums into) {
  multiply(left, right, depth_tiles, sums, stride, into, [] {});
}

}  // namespace sluice::ops::cpu::tiles

#endif
