// job.kind = "export": loads the checkpoint and writes it out again, cut and named as [export] says.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=export --set export.path=out

#include "job/export_weights.hpp"
#include "job/job.hpp"
#include "job/run_metrics.hpp"
#include "job/weights.hpp"

namespace sluice {
namespace {

void run_export(JobContext& context) {
  require_export(context);
  const Weights weights = make_weights(context);
  if (auto metrics = open_metrics(context, weights.load)) metrics->close();
  export_weights(context, ArenaValues(weights.arena));
}

const JobRegistration kExport(JobKind::kExport, {.run = run_export});

}  // namespace
}  // namespace sluice
