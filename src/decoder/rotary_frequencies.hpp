// Rotary frequencies: how far each pair of a head's entries turns per position.
#pragma once

#include "model/model_config.hpp"

#include <ATen/core/Tensor.h>

namespace sluice {

/// Frequencies in radians per position, float32 [dim / 2]: transformers' `inv_freq`, bit for bit.
[[nodiscard]] at::Tensor rotary_frequencies(const RotaryConfig& rotary);

}  // namespace sluice
