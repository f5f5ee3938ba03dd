#include "score_batches.hpp"

#include "base/fault.hpp"
#include "train/stage_binder.hpp"

#include <span>

namespace sluice {
namespace {

/// Collective over `comm`. Whether a rank was asked to stop.
bool is_stopped(Communicator& comm, const SignalWatch::StopRequest& stop) {
  std::int64_t stops = stop.number() != 0 ? 1 : 0;
  comm.all_reduce_max(std::span(&stops, 1));
  return stops != 0;
}

}  // namespace

bool score_batches(JobContext& context, ShardArena& weights, const ScoredBatches& batches) {
  const JobConfig& config = context.config();
  const ModelDescription& model = context.blueprint.model;
  context.comm.set_deadline("score", config.deadline.evaluate_seconds);
  StageBinder binder(context.links, model.config, model.manifest, weights);
  Evaluator evaluator(context.comm, model.config, binder, config.data.sequence_length,
                      config.train.micro_batch_sequences);
  context.directory.set_status("scoring");
  SignalWatch::StopRequest stop(context.signals);
  stop.set_patience(
      config.deadline.evaluate_seconds);  // within which a batch ends, or the job by its deadline
  for (std::int64_t number = batches.begin; number < batches.end; ++number) {
    if (is_stopped(context.comm, stop)) {
      stop.answer();
      context.ending = ExitCode::kResumable;
      return false;
    }
    fault_point("score.step", context.comm.rank());
    context.comm.set_deadline("score", config.deadline.evaluate_seconds);
    if (!batches.score(number, batches.read(number), evaluator)) break;
  }
  return true;
}

}  // namespace sluice
