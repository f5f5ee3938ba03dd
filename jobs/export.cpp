// job.kind = "export": loads the checkpoint and writes it out again, cut and named as [export] says; with an
// adapter that, or both as one model.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=export --set export.path=out

#include "adapter/adapter_load.hpp"
#include "job/export_model.hpp"
#include "job/job.hpp"
#include "job/run_metrics.hpp"
#include "job/weights.hpp"

namespace sluice {
namespace {

/// Loads the job's adapter in float32, whatever type the weights have.
ShardArena load_float32_adapter(JobContext& context) {
  ShardArena adapter(context.plan.shards, context.sets.own().rank(), DType::kFloat32,
                     context.plan.machine.device.memory(), "adapter", ShardArena::Units::kTrained);
  load_adapter(context.comm, *context.blueprint.adapter, context.blueprint.model.manifest, adapter,
               context.config().load.chunk_bytes);
  return adapter;
}

void run_export(JobContext& context) {
  require_export(context);
  Weights weights = make_weights(context);
  if (auto metrics = open_metrics(context, weights.load)) metrics->close();
  if (!context.blueprint.adapter) return export_model(context, ArenaValues(weights.arena), weights.arena);
  const ShardArena adapter = load_float32_adapter(context);
  export_model(context, ArenaValues(adapter), weights.arena);
}

const JobRegistration kExport(JobKind::kExport, {.run = run_export});

}  // namespace
}  // namespace sluice
