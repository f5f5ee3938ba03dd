// A Hugging Face directory written from the shards.
#pragma once

#include "job/job.hpp"
#include "load/export_plan.hpp"
#include "shard/arena.hpp"

namespace sluice {

/// Whether a job ends with an export.
[[nodiscard]] bool exports_weights(const JobConfig& config);

/// What such a job will write, worked out in this process alone from the headers in model.path, or from
/// config.json where there are no weights or the job draws its own. Error(kBadConfig) if export.path is
/// taken; Error(kIo) if its file system has too little space.
[[nodiscard]] ExportPlan check_export(const Blueprint& blueprint, const ShardPlan& shards);

/// The same, done by rank 0 before hours are spent; nothing if the job exports nothing.
void require_export(const JobContext& context);

/// Collective over the context's communicator. Writes export.path from `values`, this rank's shards in any
/// training type. Every tensor gets the element type that it has in model.path, or the one that config.json
/// names where weights were drawn: give float32 master values if there are any, they are rounded here. Rank 0
/// prints the progress and what it took.
void export_weights(JobContext& context, const ShardArena& values);

}  // namespace sluice
