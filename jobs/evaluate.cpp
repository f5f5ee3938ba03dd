// job.kind = "evaluate": loads the weights, then says how well the model predicts a token file, document by
// document and in total.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=evaluate

#include "base/fault.hpp"
#include "compute_job.hpp"
#include "data/batch_source.hpp"
#include "evaluate_report.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/text_tokens.hpp"
#include "job/weights.hpp"
#include "train/evaluator.hpp"

#include <algorithm>

namespace sluice {
namespace {

void evaluate(JobContext& context) {
  const JobConfig& config = context.config();
  BatchSource tokens(context.comm,
                     batch_options(with_token_files(context), context.blueprint.model.config.vocab_size));
  const Weights weights = make_weights(context);

  context.comm.set_deadline("evaluate", config.deadline.evaluate_seconds);
  const ModelDescription& model = context.blueprint.model;
  StageBinder binder(context.links, model.config, model.manifest, weights.arena);
  Evaluator evaluator(context.comm, model.config, binder, config.data.sequence_length,
                      config.train.micro_batch_sequences);
  EvaluateReport report(context, weights.load, tokens);

  context.directory.set_status("evaluating");
  const std::int64_t end = tokens.sequence_count();
  for (std::int64_t first = 0; first < end; first += config.train.batch_sequences) {
    fault_point("evaluate.step", context.comm.rank());
    context.comm.set_deadline("evaluate", config.deadline.evaluate_seconds);
    const Batch batch = tokens.sequences(first, std::min(config.train.batch_sequences, end - first));
    report.add(batch, evaluator.losses(batch));
  }
  report.finish();
}

const JobRegistration kEvaluate(JobKind::kEvaluate, computing<evaluate>());

}  // namespace
}  // namespace sluice
