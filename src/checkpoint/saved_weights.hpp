// The weights of a saved step as the loader takes those of any checkpoint.
#pragma once

#include "checkpoint/saved_step.hpp"
#include "load/checkpoint_load.hpp"
#include "manifest/manifest.hpp"

#include <filesystem>

namespace sluice {

/// Ranges of tensors of `manifest` but for its adapters, each within one expert of fused ones. Error(kBadData) with the first
/// tensor that the step, read from `directory`, does not hold once and whole, or in a type that does not
/// convert to `arena`.
[[nodiscard]] MatchedCheckpoint saved_weights(const SavedStep& step, const std::filesystem::path& directory,
                                              const ParameterManifest& manifest, DType arena);

/// Matches the tensors that were trained alone, whether the checkpoint holds others or not.
[[nodiscard]] MatchedCheckpoint saved_trained_weights(const SavedStep& step,
                                                      const std::filesystem::path& directory,
                                                      const ParameterManifest& manifest, DType arena);

}  // namespace sluice
