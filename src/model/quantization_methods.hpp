// The methods of quantisation that a quantization_config can name, each with keys of its own. Private to
// src/model.
#pragma once

#include "model/config_reader.hpp"
#include "model/quantization_config.hpp"

namespace sluice {

/// Adds to `out` what an object quantization_config says: the forms of its weights and the modules that stay
/// plain. Keys that say how activations and caches are rounded are passed over. Error(kBadData) for every other
/// key that changes what the model computes, and for forms that are not read, with what to use instead.
void read_quantization_method(const ConfigReader& config, QuantizationConfig& out);

}  // namespace sluice
