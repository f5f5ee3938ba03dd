// Ways of keeping an optimizer's numbers, from the most exact to the smallest.
#pragma once

#include "base/dtype.hpp"
#include "base/optimizer_mode.hpp"

#include <vector>

namespace sluice {

/// The modes to try for a job that should fit: state, master weights and gradients as listed below, kind and
/// clip rule as in `written`, each mode once. Adafactor has no moments, so its state is factored in all of
/// them; float32 weights are their own master.
///
///     state     master   gradients
///     float32   float32  float32
///     float32   float32  bfloat16
///     bfloat16  float32  bfloat16
///     int8      24bit    bfloat16
///     int8      24bit    release
///     int8      none     release
[[nodiscard]] std::vector<OptimizerMode> fitting_modes(const OptimizerMode& written, DType weights);

}  // namespace sluice
