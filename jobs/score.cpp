// job.kind = "score": loads the weights, then writes how probable the model finds each document of a token file, or
// each token. A job that was ended goes on where it was.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=score

#include "base/round.hpp"
#include "compute_job.hpp"
#include "data/batch_source.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/text_tokens.hpp"
#include "job/weights.hpp"
#include "score_batches.hpp"
#include "score_output.hpp"

#include <algorithm>

namespace sluice {
namespace {

void score(JobContext& context) {
  const std::int64_t at_once = context.config().train.batch_sequences;
  BatchSource tokens(context.comm,
                     batch_options(with_token_files(context), context.blueprint.model.config.vocab_size));
  ScoreOutput output(context, tokens);
  if (output.is_complete()) return;
  Weights weights = make_weights(context);
  const std::int64_t end = tokens.sequence_count();
  const ScoredBatches batches{
      .begin = divide_up(output.sequences_done(), at_once),  // of which the last one may be shorter
      .end = divide_up(end, at_once),
      .read =
          [&](std::int64_t number) {
            return tokens.sequences(number * at_once, std::min(at_once, end - number * at_once));
          },
      .score =
          [&](std::int64_t number, const Batch& share, Evaluator& evaluator) {
            output.add(number * at_once, share, evaluator.scores(share, context.config().score));
            return true;
          }};
  if (score_batches(context, weights.arena, batches)) output.finish();
}

const JobRegistration kScore(JobKind::kScore, computing<score>());

}  // namespace
}  // namespace sluice
