// Step 3.5 and 3.7: heads and rotary embedding by kind of layer, a sigmoid gate for each head, clamps by layer,
// sigmoid routers, a shared expert; alone, or beside the vision tower of 3.7.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

[[nodiscard]] ModelConfig read_step3p5_config(const ConfigReader& config);
[[nodiscard]] ModelConfig read_step3p7_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_step3p5(const ModelConfig& config, DType dtype);
[[nodiscard]] ParameterManifest describe_step3p7(const ModelConfig& config, DType dtype);

}  // namespace sluice
