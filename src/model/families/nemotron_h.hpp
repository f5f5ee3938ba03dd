// Nemotron-H and Nemotron 3: layers that are Mamba-2, attention, an MLP or experts alone, MLPs without a gate.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

[[nodiscard]] ModelConfig read_nemotron_h_config(const ConfigReader& config);
/// Each layer has one norm and one block, `mixer`; checkpoints say "backbone." where transformers says "model.".
[[nodiscard]] ParameterManifest describe_nemotron_h(const ModelConfig& config, DType dtype);

}  // namespace sluice
