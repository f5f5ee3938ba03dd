// Targets of adapters: the weights that a job file selects.
#pragma once

#include "manifest/adapter.hpp"
#include "manifest/manifest.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Target name for every projection but the head, including those of routed experts; not for routers, nor for what
/// PEFT refuses to adapt.
inline constexpr std::string_view kAllLinear = "all-linear";
/// Target name for the same but routed experts, which transformers 5 keeps as fused
/// parameters: PEFT's "all-linear".
inline constexpr std::string_view kLinearModules = "linear-modules";

/// Names of the adaptable weights that `targets` select, in the order of the manifest: kAllLinear,
/// kLinearModules, a module's name or the end of it as in PEFT ("q_proj", "mlp.experts.gate_up_proj"), or a
/// pattern of tensor names with `*` or `?`. Error(kBadConfig) for a target that selects no adaptable weight.
[[nodiscard]] std::vector<std::string> adapter_targets(const ParameterManifest& manifest,
                                                       std::span<const std::string> targets);

/// Parameters of the projections of a kind, and how many of them lie in weights that have adapters.
struct AdaptedShare {
  Role role;
  std::int64_t parameters = 0, adapted = 0;
};
/// Kinds of projections, those that kAllLinear selects, of whose parameters less than half lie in weights with
/// adapters, in the order of the manifest; none without adapters.
[[nodiscard]] std::vector<AdaptedShare> scarcely_adapted(const ParameterManifest& manifest,
                                                         const AdapterDescription& adapters);
/// Those kinds as text, "0.0 % of expert, 25.0 % of attention"; empty if there are none.
[[nodiscard]] std::string scarcely_adapted_text(const ParameterManifest& manifest,
                                                const AdapterDescription& adapters);

}  // namespace sluice
