// Targets of adapters: the weights that a job file selects.
#pragma once

#include "manifest/manifest.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Every projection but the head, those of routed experts among them; no router.
inline constexpr std::string_view kAllLinear = "all-linear";
/// Target name for all linear modules but routed experts, which transformers 5 keeps as fused parameters:
/// what PEFT calls "all-linear".
inline constexpr std::string_view kLinearModules = "linear-modules";

/// Names of the adaptable weights that `targets` mean, in the order of the manifest: kAllLinear,
/// kLinearModules, a module's name or the end of it as PEFT takes it ("q_proj", "mlp.experts.gate_up_proj"),
/// or a pattern of tensor names with `*` or `?`. Error(kBadConfig) for one that means no tensor that can be
/// adapted.
[[nodiscard]] std::vector<std::string> adapter_targets(const ParameterManifest& manifest,
                                                       std::span<const std::string> targets);

}  // namespace sluice
