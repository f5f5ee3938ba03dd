// Export of a checkpoint to a Hugging Face directory, in one process and bounded memory.
#pragma once

#include "adapter/adapter_save.hpp"
#include "checkpoint/saved_step.hpp"
#include "export/export_plan.hpp"
#include "load/checkpoint_load.hpp"
#include "manifest/manifest.hpp"
#include "model/architecture.hpp"
#include "weights/companion_files.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace sluice {

struct ExportStepRequest {
  const SavedStep& step;
  std::filesystem::path directory;  ///< directory of the checkpoint
  const ParameterManifest& manifest;
  const ExportPlan& plan;                     ///< export plan of the shards of a single rank
  std::filesystem::path source;               ///< directory that has plan.source().files
  std::span<const CompanionFile> companions;  ///< companion files to copy
  /// Function that gets the progress in bytes; may be empty.
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress{};
};

/// The adapters of a checkpoint, and the weights with which they are merged.
struct MergeRequest {
  /// Weights in `directory`, for the manifest of ExportStepRequest, which has the adapters.
  const MatchedCheckpoint& weights;
  std::filesystem::path directory;
};

/// Writes `target`, which appears whole or not at all, from the checkpoint's weights, each block of which is
/// verified. Holds a few buffers of some MiB. Error(kUsage) if `target` exists; Error(kBadData) if the
/// checkpoint is not what was saved.
void export_step(const ExportStepRequest& request, const std::filesystem::path& target);

/// Exports the merged model of a checkpoint that holds only adapters: each weight is read from the model's
/// files and merged while it is written. Holds the adapter of one weight at a time, and for experts that are
/// published transposed two matrices.
void export_merged_step(const ExportStepRequest& request, const MergeRequest& base,
                        const std::filesystem::path& target);

/// Exports the adapters of a checkpoint that holds only adapters of `model`, as a directory that PEFT opens.
/// `shards` is the plan for a single rank.
void export_adapter_step(const SavedStep& step, const std::filesystem::path& directory,
                         const ModelDescription& model, const ShardPlan& shards,
                         const std::filesystem::path& target, const AdapterSaveOptions& options);

}  // namespace sluice
