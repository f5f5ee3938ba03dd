#include "ops/cpu/level.hpp"

#include "ops/cpu/tiles/layout.hpp"

#ifdef SLUICE_TILES
#include "ops/cpu/tiles/registers.hpp"
#endif

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace sluice::ops::cpu {
namespace {

/// Parts of the values of ONEDNN_MAX_CPU_ISA and the levels that they allow: the first one found counts.
struct AllowedLevel {
  std::string_view name;
  Level level;
};
constexpr AllowedLevel kAllowed[] = {{"AMX", Level::kTileRegisters},
                                     {"AVX10", Level::kBFloat16},
                                     {"FP16", Level::kBFloat16},
                                     {"BF16", Level::kBFloat16},
                                     {"AVX512_CORE_VNNI", Level::kVnni},
                                     {"AVX512", Level::kAvx512},
                                     {"AVX2", Level::kAvx2},
                                     {"AVX", Level::kAvx}};

/// The highest level of the processor.
Level find_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto has = [](auto... supported) { return (... && (supported != 0)); };
  if (!has(__builtin_cpu_supports("avx"))) return Level::kAny;
  if (!has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"))) return Level::kAvx;
  if (!has(__builtin_cpu_supports("avx512bw"), __builtin_cpu_supports("avx512dq"),
           __builtin_cpu_supports("avx512vl")))
    return Level::kAvx2;
  if (!has(__builtin_cpu_supports("avx512vnni"))) return Level::kAvx512;
#ifdef SLUICE_TILES
  if (has(__builtin_cpu_supports("avx512bf16")))
    return tiles::processor_has_registers() && tiles::system_allows_registers() ? Level::kTileRegisters
                                                                                : Level::kBFloat16;
#endif
  return Level::kVnni;
#else
  return Level::kAny;
#endif
}

}  // namespace

Level level_allowed_by(std::string_view value) {
  if (value.empty() || value == "ALL" || value == "DEFAULT") return Level::kTileRegisters;
  const auto* const found = std::ranges::find_if(
      kAllowed, [&](const AllowedLevel& allowed) { return value.find(allowed.name) != value.npos; });
  return found == std::end(kAllowed) ? Level::kAny : found->level;
}

Level level_here() {
  static const Level level = [] {
    const char* const value = std::getenv("ONEDNN_MAX_CPU_ISA");
    return std::min(level_allowed_by(value == nullptr ? "" : value), find_level());
  }();
  return level;
}

bool multiplies_on_tiles() {
#if defined(__x86_64__)
  static const bool has_slow_vectors = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  return has_tile_registers() || (has_tiles() && !has_slow_vectors);
#else
  return has_tiles();
#endif
}

}  // namespace sluice::ops::cpu
