// How an optimizer keeps its numbers: the choices that a job names, that plans count and that loops read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

enum class OptimizerKind : std::uint8_t { kAdamW, kLion, kAdafactor };

/// Of the moments.
enum class StateFormat : std::uint8_t {
  kFloat32,
  kBFloat16,  ///< the first to nearest, the second stochastically: its decay is below half a unit
  kInt8,      ///< codes of 8 bits in blocks of kStateBlock elements, a float32 scale for each block
  kFactored,  ///< row and column means of squared gradients of each matrix, no first moment
};

/// Of the bits that bfloat16 weights lack.
enum class MasterFormat : std::uint8_t {
  kFloat32,  ///< all of them: 16 more bits a weight
  k24Bit,    ///< 8 more bits a weight, the last one rounded stochastically
  kNone,     ///< none: weights are rounded stochastically
};

/// How gradient shards are kept between backward and update.
enum class GradientMode : std::uint8_t {
  kFloat32,
  kBFloat16,  ///< rounded once, after their float32 sum
  kRelease,   ///< not at all: a layer is updated as soon as its gradient is there
};

enum class ClipRule : std::uint8_t {
  kGlobal,  ///< by the L2 norm of all gradients together, as torch.nn.utils.clip_grad_norm_
  kUnit,    ///< by that of each matrix, of fused experts each expert's, as Keras' `clipnorm`
};

struct OptimizerMode {
  OptimizerKind kind = OptimizerKind::kAdamW;
  StateFormat state = StateFormat::kFloat32;
  MasterFormat master = MasterFormat::kFloat32;
  GradientMode gradients = GradientMode::kFloat32;
  ClipRule clip = ClipRule::kGlobal;
  bool operator==(const OptimizerMode&) const = default;
};

// As job files spell them.

[[nodiscard]] constexpr std::string_view name_of(OptimizerKind kind) {
  constexpr std::array<std::string_view, 3> kNames{"adamw", "lion", "adafactor"};
  return kNames[static_cast<std::size_t>(kind)];
}
[[nodiscard]] constexpr std::string_view name_of(StateFormat format) {
  constexpr std::array<std::string_view, 4> kNames{"float32", "bfloat16", "int8", "factored"};
  return kNames[static_cast<std::size_t>(format)];
}
[[nodiscard]] constexpr std::string_view name_of(MasterFormat format) {
  constexpr std::array<std::string_view, 3> kNames{"float32", "24bit", "none"};
  return kNames[static_cast<std::size_t>(format)];
}
[[nodiscard]] constexpr std::string_view name_of(GradientMode mode) {
  constexpr std::array<std::string_view, 3> kNames{"float32", "bfloat16", "release"};
  return kNames[static_cast<std::size_t>(mode)];
}

/// Elements that share one scale in 8-bit state, counted from a matrix's first. Shards are cut between blocks,
/// so the codes are the same for any number of ranks.
inline constexpr std::int64_t kStateBlock = 128;

}  // namespace sluice
