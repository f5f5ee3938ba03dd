// Formats of an optimizer's numbers: the choices that a job names, that plans count and that loops read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

enum class OptimizerKind : std::uint8_t { kAdamW, kLion, kAdafactor };

/// Format of the optimizer's moments.
enum class StateFormat : std::uint8_t {
  kFloat32,
  kBFloat16,  ///< first moment rounded to nearest, second stochastically: its decay is below half a unit
  kInt8,      ///< 8-bit codes in blocks of kStateBlock elements, with a float32 scale per block
  kFactored,  ///< row and column means of squared gradients of each matrix, no first moment
};

/// Number of master-weight bits kept beside a bfloat16 weight.
enum class MasterFormat : std::uint8_t {
  kFloat32,  ///< 16 more bits per weight: all of float32
  k24Bit,    ///< 8 more bits per weight, the last one rounded stochastically
  kNone,     ///< no more bits: weights are rounded stochastically
};

/// How gradient shards are kept between backward and update.
enum class GradientMode : std::uint8_t {
  kFloat32,
  kBFloat16,  ///< rounded once, after their float32 sum
  kRelease,   ///< no gradients are kept: a layer is updated within the backward pass
};

/// Gradients that share one norm when they are clipped.
enum class ClipRule : std::uint8_t {
  kGlobal,  ///< gradients are scaled by their joint L2 norm, as in torch.nn.utils.clip_grad_norm_
  /// Each matrix's gradient is scaled by its own norm (fused experts: per expert), as in Keras' `clipnorm`.
  kUnit,
};

/// Formats of all that an optimizer keeps, as a job names them.
struct OptimizerMode {
  OptimizerKind kind = OptimizerKind::kAdamW;
  StateFormat state = StateFormat::kFloat32;
  MasterFormat master = MasterFormat::kFloat32;
  GradientMode gradients = GradientMode::kFloat32;
  ClipRule clip = ClipRule::kGlobal;
  bool operator==(const OptimizerMode&) const = default;
};

/// Spellings in job files of an enumeration of this file, in the order of its values.
template <class Enum>
inline constexpr std::array<std::string_view, 0> kSpellings{};
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<OptimizerKind>{"adamw", "lion", "adafactor"};
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<StateFormat>{"float32", "bfloat16", "int8",
                                                                         "factored"};
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<MasterFormat>{"float32", "24bit", "none"};
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<GradientMode>{"float32", "bfloat16", "release"};

template <class Enum>
requires(!kSpellings<Enum>.empty()) [[nodiscard]] constexpr std::string_view name_of(Enum value) {
  return kSpellings<Enum>[static_cast<std::size_t>(value)];
}

/// Elements that share one scale in 8-bit state, counted from a matrix's first. Shards are cut between
/// blocks, so the codes are the same for any number of ranks.
inline constexpr std::int64_t kStateBlock = 128;

}  // namespace sluice
