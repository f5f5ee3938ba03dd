#include "ops/tile_block.hpp"

#ifdef SLUICE_TILES

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace sluice::ops::tiles {
namespace {

/// What the instruction for it reads; constant, because compilers do not know that it reads it.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Configuration kConfiguration;

bool processor_has_tiles() {
  constexpr unsigned kFeatures = 7, kBfloat16 = 1U << 22, kTiles = 1U << 24;  // in EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0 || (d & kBfloat16) == 0 || (d & kTiles) == 0)
    return false;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

/// A process must ask before its first use of the tiles.
bool system_allows_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // linux/arch/x86/include/uapi/asm/prctl.h
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool user_allows_tiles() {
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (most == nullptr) return true;
  const std::string_view name = most;
  return name.empty() || name == "ALL" || name == "DEFAULT" || name.find("AMX") != name.npos;
}

}  // namespace

Registers::Registers() { _tile_loadconfig(&kConfiguration); }
Registers::~Registers() { _tile_release(); }

SLUICE_TILES void multiply(const TileRows& left, const TileRows& right, std::int64_t depth_tiles, float* sums,
                           std::int64_t stride, bool adds) {
  multiply(left, right, depth_tiles, sums, stride, adds, [] {});
}

}  // namespace sluice::ops::tiles

namespace sluice::ops {

bool has_tiles() {
  static const bool has =
      tiles::user_allows_tiles() && tiles::processor_has_tiles() && tiles::system_allows_tiles();
  return has;
}

}  // namespace sluice::ops

#else

namespace sluice::ops {

bool has_tiles() { return false; }

}  // namespace sluice::ops

#endif
