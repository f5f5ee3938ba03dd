// job.kind = "score": loads the weights, then writes how probable the model finds each document of a token file, or
// each token. A job that was ended goes on where it was.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=score

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/round.hpp"
#include "base/text.hpp"
#include "comm/long_work.hpp"
#include "comm/root_exchange.hpp"
#include "comm/run_together.hpp"
#include "compute_job.hpp"
#include "data/batch_source.hpp"
#include "data/score_file.hpp"
#include "job/job.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/prepare/score_key.hpp"
#include "job/text_tokens.hpp"
#include "job/weights.hpp"
#include "process/console.hpp"
#include "score_batches.hpp"
#include "train/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Output of a score job: rank 0 writes the file of scores and the progress.
class ScoreOutput {
 public:
  /// Collective over the job's ranks. Begins score.file, or goes on with that of an earlier run of the job. `tokens`
  /// must outlive this object. Errors of ScoreWriter on every rank.
  ScoreOutput(JobContext& context, BatchSource& tokens);

  /// Number of sequences whose scores an earlier run has written, the same on every rank.
  [[nodiscard]] std::int64_t sequences_done() const { return sequences_done_; }
  /// Whether an earlier run has finished the job, the same on every rank.
  [[nodiscard]] bool is_complete() const { return is_complete_; }

  /// Collective over the job's ranks. Writes the documents of this batch, which begins with sequence `first`:
  /// each rank's share with the scores of its targets.
  void add(std::int64_t first, const Batch& share, const TokenScores& scores);

  /// Closes the file and prints the totals.
  void finish();

 private:
  void write(std::int64_t sequence, std::span<const TokenMark> marks, const TokenScores& scores,
             std::size_t first);
  void tell_progress();

  JobContext& context_;
  BatchSource& tokens_;
  std::optional<ScoreWriter> writer_;  ///< writer of the file of scores; rank 0 alone has one
  std::int64_t sequences_done_ = 0;
  bool is_complete_ = false;
  std::int64_t sequences_ = 0;  ///< sequences of the whole job
  std::int64_t begun_at_ = 0;   ///< sequences that were done when this run began
  std::int64_t targets_ = 0;    ///< targets of the documents that this run has written
  Stopwatch watch_;
  double printed_seconds_ = 0;
};

/// What a document has for each of its tokens: NaN, -1 and 0 where the token is no target.
class DocumentTokens {
 public:
  DocumentTokens(std::size_t count, const TokenDistributions& of_targets)
      : log_probs(count, std::numeric_limits<float>::quiet_NaN()),
        found{of_targets.width,
              std::vector<std::int32_t>(count * width(of_targets), -1),
              std::vector<float>(count * width(of_targets), of_no_target(of_targets)),
              {}} {
    if (!of_targets.rest.empty()) found.rest.assign(count, of_no_target(of_targets));
  }

  /// Takes the log-probability of a token, and the distribution of target number `target`.
  void take(std::size_t token, double log_prob, const TokenDistributions& of_targets, std::size_t target) {
    const std::size_t row = width(of_targets);
    log_probs[token] = static_cast<float>(log_prob);
    std::ranges::copy(std::span(of_targets.ids).subspan(target * row, row),
                      found.ids.begin() + static_cast<std::ptrdiff_t>(token * row));
    std::ranges::copy(std::span(of_targets.values).subspan(target * row, row),
                      found.values.begin() + static_cast<std::ptrdiff_t>(token * row));
    if (!of_targets.rest.empty()) found.rest[token] = of_targets.rest[target];
  }

  std::vector<float> log_probs;
  TokenDistributions found;

 private:
  [[nodiscard]] static std::size_t width(const TokenDistributions& of) {
    return static_cast<std::size_t>(of.width);
  }
  /// A count of 0, or a log-probability that is NaN.
  [[nodiscard]] static float of_no_target(const TokenDistributions& of) {
    return of.rest.empty() ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
};

ScoreOutput::ScoreOutput(JobContext& context, BatchSource& tokens)
    : context_(context), tokens_(tokens), sequences_(tokens.sequence_count()) {
  std::array<std::int64_t, 2> state{};
  run_long_on_root(context.comm, [&](const std::function<void()>& tell) {
    const ScoreKey key = score_key(context.config(), context.blueprint.model, tokens.files()->file(0), tell);
    writer_.emplace(context.directory.new_file(context.config().score.file), key);
    state = {writer_->sequences_done(), writer_->is_complete() ? 1 : 0};
    console::line("scores    {} of {}: {}",
                  format_bytes(score_bytes(key.documents, key.tokens, context.config().score)),
                  counted(key.documents, "document"),
                  context.directory.file(context.config().score.file).string());
    if (state[0] > 0) console::line("resume    behind sequence {} of {}", state[0], sequences_);
  });
  context.comm.all_reduce_max(std::span<std::int64_t>(state));
  sequences_done_ = begun_at_ = state[0];
  is_complete_ = state[1] == 1;
}

void ScoreOutput::add(std::int64_t first, const Batch& share, const TokenScores& scores) {
  const auto gather = [&](const auto& own) { return gather_to_root(context_.comm, std::span(own)); };
  const std::vector<TokenMark> marks = gather(share.marks);
  TokenScores all;
  all.losses = gather(scores.losses);
  all.greedy = gather(scores.greedy);
  all.distributions = {context_.config().score.distribution_tokens(), gather(scores.distributions.ids),
                       gather(scores.distributions.values), gather(scores.distributions.rest)};
  const std::int64_t sequences = writer_ ? std::ssize(all.losses) / share.length : 0;
  run_on_root(context_.comm, [&] {
    const auto length = static_cast<std::size_t>(share.length);
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
      const auto number = static_cast<std::size_t>(sequence);
      write(first + sequence, std::span(marks).subspan(number * (length + 1), length + 1), all,
            number * length);
    }
    fault_point("score.commit", context_.comm.rank());
    writer_->commit(first + sequences);
    sequences_done_ = first + sequences;
    tell_progress();
  });
}

/// Writes the documents of one sequence with these marks [length + 1], whose targets begin at number `first` of
/// `scores`.
void ScoreOutput::write(std::int64_t sequence, std::span<const TokenMark> marks, const TokenScores& scores,
                        std::size_t first) {
  SourceFiles& files = *tokens_.files();
  std::size_t column = 0;  // column of the document's first token
  for (const TokenRange& run : files.packer(0)->sequence(sequence)) {
    const auto count = static_cast<std::size_t>(run.count);
    std::vector<std::int64_t> ids(count);
    if (scores.distributions.width > 0) files.file(0).read_run(run, ids, {});
    DocumentScore score;
    DocumentTokens tokens(count, scores.distributions);
    for (std::size_t token = 1; token < count; ++token) {
      if (marks[column + token] != TokenMark::kInside) continue;
      const std::size_t target = first + column + token - 1;
      const double log_prob = -scores.losses[target];
      score.add(log_prob, scores.greedy[target] != 0);
      tokens.take(token, log_prob, scores.distributions, target);
    }
    writer_->write(files.file(0).packable_documents().document_at(run.first), score, run, tokens.log_probs);
    writer_->write(run, ids, tokens.found);
    column += count;
    targets_ += score.targets;
  }
}

/// Tells the progress to status.json, and every ten seconds in a line.
void ScoreOutput::tell_progress() {
  constexpr double kIntervalSeconds = 10;
  const double seconds = watch_.seconds();
  const auto done = static_cast<double>(sequences_done_ - begun_at_);
  const double tokens_per_second = static_cast<double>(targets_) / seconds;
  context_.directory.set_progress(
      {.unit = "sequence",
       .done = sequences_done_,
       .total = sequences_,
       .tokens_per_second = tokens_per_second,
       .seconds_left = seconds / done * static_cast<double>(sequences_ - sequences_done_)});
  if (seconds - printed_seconds_ < kIntervalSeconds) return;
  printed_seconds_ = seconds;
  console::line("scored    {} of {} sequences, {:.0f} tokens/s", sequences_done_, sequences_,
                tokens_per_second);
}

void ScoreOutput::finish() {
  run_on_root(context_.comm, [&] {
    const auto [total, documents] = writer_->totals();  // those of an earlier start too
    writer_->finish();
    console::line(
        "scored    {} of {}: log-probability {:.5f} nat/token, {} the most probable, {:.0f} tokens/s",
        counted(total.targets, "target"), counted(documents, "document"),
        total.log_prob / static_cast<double>(std::max<std::int64_t>(1, total.targets)), total.greedy,
        static_cast<double>(targets_) / watch_.seconds());
  });
}

void score(JobContext& context) {
  const std::int64_t at_once = context.config().train.batch_sequences;
  BatchSource tokens(context.comm,
                     batch_options(with_token_files(context), context.blueprint.model.config.vocab_size));
  ScoreOutput output(context, tokens);
  if (output.is_complete()) return;
  Weights weights = make_weights(context);
  const ScoredBatches batches{
      .begin = divide_up(output.sequences_done(), at_once),  // of which the last one may be shorter
      .end = tokens.batches_in_order(at_once),
      .read = [&](std::int64_t number) { return tokens.batch_in_order(number, at_once); },
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
