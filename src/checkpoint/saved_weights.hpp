// Weights of a checkpoint, in the form in which the loader takes those of a model.
#pragma once

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

}  // namespace sluice
