// Export of a job's adapters: a directory that PEFT opens, or weights with the adapters merged.
#pragma once

#include "adapter/adapter_save.hpp"
#include "job/job.hpp"
#include "shard/arena.hpp"
#include "shard/shard_values.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice {

/// Whether a job that exports writes its adapters alone.
[[nodiscard]] bool exports_adapter(const Blueprint& blueprint);

/// Bytes of the tensors in an exported adapter's directory.
[[nodiscard]] std::int64_t adapter_bytes(const Blueprint& blueprint);

/// Style in which PEFT gets the adapters of a job.
[[nodiscard]] PeftStyle adapter_style(const Blueprint& blueprint);

/// A model's name for adapter_config.json: its path from the root on, as PEFT opens the model by this name
/// wherever it is started, and takes a relative one for a name on the hub.
[[nodiscard]] std::string base_model_name(const std::filesystem::path& model);

/// Options with which a job's adapters are written.
[[nodiscard]] AdapterSaveOptions adapter_save_options(const Blueprint& blueprint);

/// Collective over the context's communicator. Writes export.path for PEFT from `values`, this rank's shards
/// in any training type. Rank 0 prints what it took.
void export_adapter(JobContext& context, const ShardValues& values);

/// Collective over the context's communicator. Writes export.path as the job wants it: the model as `values`
/// have it, its adapters alone, or the model with them merged; then `weights` are the merged ones, and
/// nothing is to be computed with them and the adapters any more.
void export_model(JobContext& context, const ShardValues& values, ShardArena& weights);

}  // namespace sluice
