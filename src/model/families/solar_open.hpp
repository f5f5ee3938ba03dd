// Solar Open: grouped-query attention; MLPs that are all mixtures, each with a shared expert and a router of
// sigmoid scores with a correction bias, limited to groups. Follows transformers' modeling_solar_open.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Solar Open. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_solar_open_config(const ConfigReader& config);

}  // namespace sluice
