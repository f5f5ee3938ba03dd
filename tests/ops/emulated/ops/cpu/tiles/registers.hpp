// In place of src/ops/cpu/tiles/registers.hpp: every processor has tile registers, which are arrays. So what
// is computed on such registers is tested where there are none. As Intel's manual (volume 2, "TDPBF16PS") has
// it, but for the order of sums and for denormals.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace sluice::ops::cpu::tiles {

inline bool processor_has_registers() { return true; }
inline bool system_allows_registers() { return true; }

namespace emulated {

constexpr std::size_t kRows = 16, kRowBytes = 64, kPairs = 16;

struct Registers {
  bool configured = false;
  std::array<std::array<std::byte, kRows * kRowBytes>, 8> tiles{};
};

/// Those of this thread; they cannot be used before they are set up.
inline Registers& registers() {
  static thread_local Registers of_thread;
  return of_thread;
}

inline std::byte* tile(int index) {
  if (!registers().configured) std::abort();
  return registers().tiles[static_cast<std::size_t>(index)].data();
}

inline void load(int index, const void* source, std::size_t stride) {
  for (std::size_t row = 0; row < kRows; ++row)
    std::memcpy(tile(index) + row * kRowBytes, static_cast<const std::byte*>(source) + row * stride,
                kRowBytes);
}

inline void store(int index, void* target, std::size_t stride) {
  for (std::size_t row = 0; row < kRows; ++row)
    std::memcpy(static_cast<std::byte*>(target) + row * stride, tile(index) + row * kRowBytes, kRowBytes);
}

inline void clear(int index) { std::memset(tile(index), 0, kRows * kRowBytes); }

/// One number of a tile of bfloat16, as float32.
inline float bfloat16(const std::byte* from, std::size_t row, std::size_t column) {
  std::uint16_t upper = 0;
  std::memcpy(&upper, from + row * kRowBytes + column * sizeof upper, sizeof upper);
  const std::uint32_t bits = std::uint32_t{upper} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// sums [16, 16] += left [16, 16 pairs] right [16 pairs, 16].
inline void multiply(int sums, int left, int right) {
  const std::byte *const l = tile(left), *const r = tile(right);
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t column = 0; column < kPairs; ++column) {
      std::byte* const place = tile(sums) + row * kRowBytes + column * sizeof(float);
      float sum = 0;
      std::memcpy(&sum, place, sizeof sum);
      for (std::size_t pair = 0; pair < kPairs; ++pair)
        for (std::size_t half = 0; half < 2; ++half)
          sum += bfloat16(l, row, 2 * pair + half) * bfloat16(r, pair, 2 * column + half);
      std::memcpy(place, &sum, sizeof sum);
    }
}

/// The only layout that is used: eight tiles of 16 rows of 64 bytes.
inline void configure(const void* configuration) {
  std::array<std::uint8_t, 64> bytes{};
  std::memcpy(bytes.data(), configuration, bytes.size());
  bool whole = bytes[0] == 1;
  for (std::size_t index = 0; index < 8; ++index)
    whole = whole && bytes[16 + 2 * index] == kRowBytes && bytes[48 + index] == kRows;
  if (!whole) std::abort();
  registers().configured = true;
}

inline void release() { registers().configured = false; }

}  // namespace emulated
}  // namespace sluice::ops::cpu::tiles

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig(configuration) ::sluice::ops::cpu::tiles::emulated::configure(configuration)
#define _tile_release() ::sluice::ops::cpu::tiles::emulated::release()
#define _tile_loadd(tile, source, stride) ::sluice::ops::cpu::tiles::emulated::load(tile, source, stride)
#define _tile_stored(tile, target, stride) ::sluice::ops::cpu::tiles::emulated::store(tile, target, stride)
#define _tile_zero(tile) ::sluice::ops::cpu::tiles::emulated::clear(tile)
#define _tile_dpbf16ps(sums, left, right) ::sluice::ops::cpu::tiles::emulated::multiply(sums, left, right)
