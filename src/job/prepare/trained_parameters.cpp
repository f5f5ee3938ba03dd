#include "job/prepare/trained_parameters.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/adapter_targets.hpp"
#include "manifest/name_pattern.hpp"

#include <cmath>

namespace sluice {

AdapterDescription described_adapters(const JobConfig& config, const ParameterManifest& manifest) {
  const LoraSettings& lora = config.lora;
  AdapterDescription adapters;
  if (config.job.kind != JobKind::kTrain || lora.rank == 0) return adapters;
  const auto rank = static_cast<double>(lora.rank), alpha = lora.alpha == 0 ? rank : lora.alpha;
  adapters.dropout = lora.dropout;
  for (const std::string& base : adapter_targets(manifest, lora.targets))
    adapters.tensors.push_back({base, lora.rank, alpha / (lora.rslora ? std::sqrt(rank) : rank)});
  require_no_dropout(adapters, manifest);
  return adapters;
}

void require_no_dropout(const AdapterDescription& adapters, const ParameterManifest& manifest) {
  if (adapters.dropout == 0) return;
  for (const AdaptedTensor& adapted : adapters.tensors) {
    const Role role = manifest[*manifest.find(adapted.base)].role;
    if (role == Role::kExpert || role == Role::kRouter)
      fail(
          ExitCode::kBadConfig,
          "lora.dropout: found {}, expected 0, because {} is adapted, and routers and routed experts are parameters "
          "that have no inputs of their own to leave out",
          adapters.dropout, adapted.base);
  }
}

void freeze_parameters(const JobConfig& config, ParameterManifest& manifest) {
  if (config.job.kind != JobKind::kTrain) return;
  for (const std::string& pattern : config.train.freeze) {
    bool means_any = false;
    for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor) {
      const bool is_stored = manifest[tensor].kind != TensorKind::kComputedBuffer;
      if (!is_stored || !matches_pattern(pattern, manifest[tensor].name)) continue;
      means_any = true;
      manifest.freeze(tensor);
    }
    if (!means_any)
      fail(ExitCode::kBadConfig,
           "train.freeze: \"{}\" means no tensor of this model, expected a pattern of names such as "
           "\"model.layers.0.*\"; `sluice inspect` lists them",
           printable(pattern));
  }
  if (manifest.trained_parameter_count() == 0)
    fail(ExitCode::kBadConfig,
         "train.freeze: found patterns that mean every tensor, expected some to be left to train");
}

}  // namespace sluice
