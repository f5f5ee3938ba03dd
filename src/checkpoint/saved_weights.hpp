// Weights and adapters of a checkpoint, in the forms in which loads take those of a model and of PEFT's directories.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "checkpoint/saved_step.hpp"
#include "load/checkpoint_load.hpp"
#include "manifest/manifest.hpp"

#include <filesystem>

namespace sluice {

/// Matches the weights of a checkpoint in `directory` with the tensors of `manifest` but its adapters, in
/// ranges within one expert of fused ones. Error(kBadData) with the first tensor that the checkpoint does not
/// hold once and whole, or holds in a type that does not convert to `arena`.
[[nodiscard]] MatchedCheckpoint saved_weights(const SavedStep& step, const std::filesystem::path& directory,
                                              const ParameterManifest& manifest, DType arena);

/// Matches only the tensors that were trained, whether the checkpoint holds others or not.
[[nodiscard]] MatchedCheckpoint saved_trained_weights(const SavedStep& step,
                                                      const std::filesystem::path& directory,
                                                      const ParameterManifest& manifest, DType arena);

/// The adapters of the checkpoint in `directory`, which `adapters` describes, for another job to start from or to
/// compute with; `manifest` is of a model without adapters. Every block of a file is verified before it is used.
/// Error(kBadData) if they adapt weights that the model does not have, or if their values are not there once and
/// whole in the model's shapes.
[[nodiscard]] PeftAdapter saved_adapter(const SavedStep& step, const std::filesystem::path& directory,
                                        const SavedAdapters& adapters, ParameterManifest manifest);

}  // namespace sluice
