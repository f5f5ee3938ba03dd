// job.kind = "score": loads the weights, then writes how probable the model finds each document of a token file, or
// each token. A job that was ended goes on where it was.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=score

#include "base/fault.hpp"
#include "compute_job.hpp"
#include "data/batch_source.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/text_tokens.hpp"
#include "job/weights.hpp"
#include "score_output.hpp"
#include "train/evaluator.hpp"

#include <algorithm>
#include <span>

namespace sluice {
namespace {

/// Collective over `comm`. Whether a rank was asked to stop.
bool is_stopped(Communicator& comm, const SignalWatch::StopRequest& stop) {
  std::int64_t stops = stop.number() != 0 ? 1 : 0;
  comm.all_reduce_max(std::span(&stops, 1));
  return stops != 0;
}

void score(JobContext& context) {
  const JobConfig& config = context.config();
  const ModelDescription& model = context.blueprint.model;
  BatchSource tokens(context.comm, batch_options(with_token_files(context), model.config.vocab_size));
  ScoreOutput output(context, tokens);
  if (output.is_complete()) return;
  const Weights weights = make_weights(context);

  context.comm.set_deadline("score", config.deadline.evaluate_seconds);
  StageBinder binder(context.links, model.config, model.manifest, weights.arena);
  Evaluator evaluator(context.comm, model.config, binder, config.data.sequence_length,
                      config.train.micro_batch_sequences);
  context.directory.set_status("scoring");
  SignalWatch::StopRequest stop(context.signals);
  stop.set_patience(
      config.deadline.evaluate_seconds);  // within which a batch ends, or the job by its deadline
  const std::int64_t end = tokens.sequence_count();
  for (std::int64_t first = output.sequences_done(); first < end; first += config.train.batch_sequences) {
    if (is_stopped(context.comm, stop)) {
      stop.answer();
      context.ending = ExitCode::kResumable;
      return;
    }
    fault_point("score.step", context.comm.rank());
    context.comm.set_deadline("score", config.deadline.evaluate_seconds);
    const Batch batch = tokens.sequences(first, std::min(config.train.batch_sequences, end - first));
    output.add(first, batch, evaluator.scores(batch));
  }
  output.finish();
}

const JobRegistration kScore(JobKind::kScore, computing<score>());

}  // namespace
}  // namespace sluice
