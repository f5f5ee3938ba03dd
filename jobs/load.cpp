// job.kind = "load": streams the checkpoint into the ranks' shards and reports what it took.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=load

#include "job/job.hpp"
#include "job/run_metrics.hpp"
#include "job/weights.hpp"

namespace sluice {
namespace {

void run_load(JobContext& context) {
  const bool discard = context.config().load.sink == LoadSink::kDiscard;
  const std::optional<LoadReport> report = discard ? stream_weights(context) : make_weights(context).load;
  if (auto metrics = open_metrics(context, report)) metrics->close();
}

const JobRegistration kLoad(JobKind::kLoad, {.run = run_load});

}  // namespace
}  // namespace sluice
