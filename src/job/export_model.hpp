// Export of a job: its shards to a Hugging Face directory, or its adapters to a directory that PEFT opens.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "job/job.hpp"
#include "shard/arena.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice {

/// Whether a job ends with an export.
[[nodiscard]] bool exports_weights(const JobConfig& config);

struct ExportSize {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  ///< bytes of all files
  int files = 0;           ///< number of files with weights
};

/// Size of an export, worked out in this process alone from the headers in model.path, or from config.json
/// where there are no weights or the job draws its own. Error(kBadConfig) if export.path is taken, or if
/// adapters cannot be merged; Error(kIo) if it cannot be made or its file system has too little space.
[[nodiscard]] ExportSize check_export(const Blueprint& blueprint, const ShardPlan& shards);

/// Collective over the context's communicator. Rank 0 makes check_export() before hours are spent, and every
/// rank tries to write a file beside export.path, which is removed again. Does nothing if the job exports
/// nothing.
void require_export(JobContext& context);

/// Collective over the context's communicator. Writes export.path as the job wants it: the model as `values`,
/// this rank's shards in any training type, have it; its adapters alone, for PEFT; or the model with them
/// merged: then `weights` are the merged ones, and nothing is to be computed with them and the adapters any
/// more. Every tensor of a model gets the element type that it has in model.path, or the one that config.json
/// names where weights were drawn: give float32 master values if there are any, they are rounded here. Rank 0
/// prints the progress and what it took. After a training a model.path that has changed or gone is a warning:
/// then what it would add is missing.
void export_model(JobContext& context, const ShardValues& values, ShardArena& weights);

/// Style in which PEFT gets the adapters of a job: the style of the directory with which the job began, or
/// else of the class that config.json names.
[[nodiscard]] PeftStyle adapter_style(const Blueprint& blueprint);

/// A model's name for adapter_config.json: its path from the root on, as PEFT opens the model by this name
/// wherever it is started, and takes a relative one for a name on the hub.
[[nodiscard]] std::string base_model_name(const std::filesystem::path& model);

}  // namespace sluice
