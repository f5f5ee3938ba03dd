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
  void write(std::int64_t sequence, std::span<const TokenMark> marks, std::span<const double> losses,
             std::span<const std::uint8_t> greedy);
  void write(std::int64_t sequence, std::span<const TokenMark> marks, const TokenDistributions& found,
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

/// Value at a token that is no target: a count of 0, or a log-probability that is NaN.
float of_no_target(const TokenDistributions& found) {
  return found.rest.empty() ? 0 : std::numeric_limits<float>::quiet_NaN();
}

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
  const std::vector<TokenMark> all_marks = gather_to_root(context_.comm, std::span(share.marks));
  const std::vector<double> all_losses = gather_to_root(context_.comm, std::span(scores.losses));
  const std::vector<std::uint8_t> all_greedy = gather_to_root(context_.comm, std::span(scores.greedy));
  const TokenDistributions all_found{context_.config().score.distribution_tokens(),
                                     gather_to_root(context_.comm, std::span(scores.distributions.ids)),
                                     gather_to_root(context_.comm, std::span(scores.distributions.values)),
                                     gather_to_root(context_.comm, std::span(scores.distributions.rest))};
  const std::int64_t sequences = writer_ ? std::ssize(all_losses) / share.length : 0;
  run_on_root(context_.comm, [&] {
    const auto length = static_cast<std::size_t>(share.length);
    std::span<const TokenMark> marks = all_marks;
    std::span<const double> losses = all_losses;
    std::span<const std::uint8_t> greedy = all_greedy;
    for (std::int64_t sequence = first; sequence < first + sequences; ++sequence) {
      write(sequence, marks.first(length + 1), losses.first(length), greedy.first(length));
      if (all_found.width > 0)
        write(sequence, marks.first(length + 1), all_found, all_losses.size() - losses.size());
      marks = marks.subspan(length + 1);
      losses = losses.subspan(length);
      greedy = greedy.subspan(length);
    }
    fault_point("score.commit", context_.comm.rank());
    writer_->commit(first + sequences);
    sequences_done_ = first + sequences;
    tell_progress();
  });
}

/// Writes the documents of one sequence with these marks [length + 1], and losses and greedy hits of targets [length].
void ScoreOutput::write(std::int64_t sequence, std::span<const TokenMark> marks,
                        std::span<const double> losses, std::span<const std::uint8_t> greedy) {
  SourceFiles& files = *tokens_.files();
  std::size_t column = 0;  // column of the document's first token
  for (const TokenRange& run : files.packer(0)->sequence(sequence)) {
    DocumentScore score;
    const auto count = static_cast<std::size_t>(run.count);
    std::vector<float> log_probs(count, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t token = 1; token < count; ++token) {
      if (marks[column + token] != TokenMark::kInside) continue;
      const double log_prob = -losses[column + token - 1];
      score.add(log_prob, greedy[column + token - 1] != 0);
      log_probs[token] = static_cast<float>(log_prob);
    }
    writer_->write(files.file(0).packable_documents().document_at(run.first), score, run, log_probs);
    column += count;
    targets_ += score.targets;
  }
}

/// Writes the distributions of one sequence with these marks [length + 1]: those of its targets begin at number
/// `first` of `found`.
void ScoreOutput::write(std::int64_t sequence, std::span<const TokenMark> marks,
                        const TokenDistributions& found, std::size_t first) {
  SourceFiles& files = *tokens_.files();
  const auto width = static_cast<std::size_t>(found.width);
  std::size_t column = 0;  // column of the document's first token
  for (const TokenRange& run : files.packer(0)->sequence(sequence)) {
    const auto count = static_cast<std::size_t>(run.count);
    TokenDistributions of_run{found.width,
                              std::vector<std::int32_t>(count * width, -1),
                              std::vector<float>(count * width, of_no_target(found)),
                              {}};
    if (!found.rest.empty()) of_run.rest.assign(count, of_no_target(found));
    for (std::size_t token = 1; token < count; ++token) {
      if (marks[column + token] != TokenMark::kInside) continue;
      const std::size_t target = first + column + token - 1;
      std::ranges::copy(std::span(found.ids).subspan(target * width, width),
                        of_run.ids.begin() + static_cast<std::ptrdiff_t>(token * width));
      std::ranges::copy(std::span(found.values).subspan(target * width, width),
                        of_run.values.begin() + static_cast<std::ptrdiff_t>(token * width));
      if (!found.rest.empty()) of_run.rest[token] = found.rest[target];
    }
    writer_->write(run, of_run);
    column += count;
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
