// Levels of instructions that loops are written for, and the level that computes here. Internal to src/ops.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::ops::cpu {

/// A level has all the instructions of the levels before it. In order: what every processor has; vectors of
/// 32 bytes (AVX); those of integers, and fused multiply-add (AVX2); vectors of 64 bytes (AVX-512); dot
/// products of bytes (AVX-512 VNNI) and of bfloat16 (AVX-512 BF16); tile registers (AMX).
enum class Level : std::uint8_t { kAny, kAvx, kAvx2, kAvx512, kVnni, kBFloat16, kTileRegisters };

/// The highest level whose instructions the value of ONEDNN_MAX_CPU_ISA allows, the variable that also limits
/// oneDNN; an empty value allows all.
[[nodiscard]] Level level_allowed_by(std::string_view value);

/// The highest level that this processor has, the system lets this process use, and ONEDNN_MAX_CPU_ISA allows.
[[nodiscard]] Level level_here();

/// Whether the processor multiplies vectors of bfloat16, with or without tile registers.
[[nodiscard]] inline bool has_tiles() { return level_here() >= Level::kBFloat16; }

/// Whether large products of bfloat16 are computed on matrix tiles: on tile registers, or by vectors of bfloat16
/// where these are faster than vectors of float32. Intel's are not: they multiply at 0.6 of that rate, as processors
/// do whose system does not let programs use the tile registers.
[[nodiscard]] bool multiplies_on_tiles();

/// Whether blocks of tiles are multiplied on tile registers.
[[nodiscard]] inline bool has_tile_registers() { return level_here() >= Level::kTileRegisters; }

}  // namespace sluice::ops::cpu
