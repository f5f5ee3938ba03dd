// Adapter of a checkpoint, for another job to start from or to compute with.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "checkpoint/saved_step.hpp"
#include "manifest/manifest.hpp"

#include <filesystem>

namespace sluice {

/// `adapters` describes the adapters of the checkpoint in `directory`; `manifest` is of a model without
/// adapters. Every block of a file is verified before it is used. Error(kBadData) if they adapt weights that
/// the model does not have, or if their values are not there once and whole in the model's shapes.
[[nodiscard]] PeftAdapter saved_adapter(const SavedStep& step, const std::filesystem::path& directory,
                                        const SavedAdapters& adapters, ParameterManifest manifest);

}  // namespace sluice
