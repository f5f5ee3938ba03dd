// Which weights an adapter changes, as a job file says it.
#pragma once

#include "manifest/manifest.hpp"

#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Names of the tensors that `targets` mean, in the order of the manifest: "all-linear" (every projection but the head;
/// no router and no routed experts, which are no modules of their own), a module's name or the end of it as PEFT takes
/// it ("q_proj", "mlp.experts.gate_up_proj"), or a pattern of tensor names with `*` or `?`. Error(kBadConfig) for one that
/// means no tensor that can be adapted.
[[nodiscard]] std::vector<std::string> adapter_targets(const ParameterManifest& manifest,
                                                       std::span<const std::string> targets);

}  // namespace sluice
