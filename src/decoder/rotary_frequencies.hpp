// How fast each pair of a head's entries turns from position to position.
#pragma once

#include "model/model_config.hpp"

#include <ATen/core/Tensor.h>

namespace sluice {

/// Radians per position: float32 [dim / 2]. transformers' `inv_freq`, to the last bit.
[[nodiscard]] at::Tensor rotary_frequencies(const RotaryConfig& rotary);

}  // namespace sluice
