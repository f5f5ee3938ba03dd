// Targets of adapters: the weights that a job file selects.
#pragma once

#include "manifest/manifest.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Target name for every projection but the head, including those of routed experts; not for routers.
inline constexpr std::string_view kAllLinear = "all-linear";
/// Target name for every projection but the head and routed experts, which transformers 5 keeps as fused
/// parameters: PEFT's "all-linear".
inline constexpr std::string_view kLinearModules = "linear-modules";

/// Names of the adaptable weights that `targets` select, in the order of the manifest: kAllLinear,
/// kLinearModules, a module's name or the end of it as in PEFT ("q_proj", "mlp.experts.gate_up_proj"), or a
/// pattern of tensor names with `*` or `?`. Error(kBadConfig) for a target that selects no adaptable weight.
[[nodiscard]] std::vector<std::string> adapter_targets(const ParameterManifest& manifest,
                                                       std::span<const std::string> targets);

}  // namespace sluice
