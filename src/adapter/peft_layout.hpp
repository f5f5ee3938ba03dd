// Form of an adapter for PEFT: the tensors of its file and its adapter_config.json. Pure.
#pragma once

#include "adapter/peft_adapter.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Tensors of an adapter in the layout of PEFT 0.20 and later, all float32, without places in the file.
[[nodiscard]] std::vector<PeftTensor> peft_tensors(const AdapterDescription& adapters,
                                                   const ParameterManifest& manifest, const PeftStyle& style);

/// Text of adapter_config.json, by which PEFT finds the same weights with the same ranks and scales.
[[nodiscard]] std::string peft_config_text(const AdapterDescription& adapters,
                                           const ParameterManifest& manifest, const PeftStyle& style,
                                           std::string_view base_model);

}  // namespace sluice
