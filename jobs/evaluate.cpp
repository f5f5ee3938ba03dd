// job.kind = "evaluate": loads the weights, then says how well the model predicts a token file, document by
// document and in total.
//
//   mpirun -np 3 sluice run job.toml --set job.kind=evaluate

#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/text.hpp"
#include "comm/root_exchange.hpp"
#include "compute_job.hpp"
#include "data/batch_source.hpp"
#include "job/job.hpp"
#include "job/prepare/options_of_job.hpp"
#include "job/run_metrics.hpp"
#include "job/text_tokens.hpp"
#include "job/weights.hpp"
#include "load/load_report.hpp"
#include "process/console.hpp"
#include "train/document_losses.hpp"
#include "train/evaluator.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {
namespace {

class EvaluateReport {
 public:
  /// Rank 0 creates the metrics file, with room for the documents of `tokens`, and fills /load if there is a
  /// `load`. Other ranks only contribute their losses.
  EvaluateReport(JobContext& context, const std::optional<LoadReport>& load, const BatchSource& tokens);

  /// Collective over the job's ranks. Adds each rank's share of the next batch, with the losses of its
  /// targets. Writes the documents that ended, and the totals.
  void add(const Batch& share, std::span<const double> losses);

  /// Writes the remaining rows, closes the file and prints the totals. Error(kIo), after that, if the file
  /// lacks rows.
  void finish();

 private:
  void write(const std::vector<DocumentLoss>& documents);
  void tell_progress();
  void print_progress();

  Communicator& comm_;
  RunDirectory& directory_;
  RunMetrics metrics_;
  DocumentLosses losses_;
  std::int64_t sequences_;  ///< sequences in the token file
  std::int64_t sequences_done_ = 0;
  Stopwatch watch_;
  double printed_seconds_ = 0;
};

EvaluationRow row_of(const DocumentLoss& loss) { return {loss.targets, loss.loss(), loss.perplexity()}; }

EvaluateReport::EvaluateReport(JobContext& context, const std::optional<LoadReport>& load,
                               const BatchSource& tokens)
    : comm_(context.comm),
      directory_(context.directory),
      metrics_(context, load, {.documents = tokens.document_count()}),
      sequences_(tokens.sequence_count()) {}

void EvaluateReport::add(const Batch& share, std::span<const double> losses) {
  const std::vector<TokenMark> all_marks = gather_to_root(comm_, std::span(share.marks));
  const std::vector<double> all_losses = gather_to_root(comm_, losses);
  if (!metrics_) return;
  write(losses_.add(share.length, all_marks, all_losses));
  sequences_done_ += std::ssize(all_losses) / share.length;
  tell_progress();
  print_progress();
}

void EvaluateReport::tell_progress() {
  const double seconds = watch_.seconds();
  const auto done = static_cast<double>(sequences_done_);
  directory_.set_progress(
      {.unit = "sequence",
       .done = sequences_done_,
       .total = sequences_,
       .loss = losses_.total().loss(),
       .tokens_per_second = static_cast<double>(losses_.total().targets) / seconds,
       .seconds_left = done == 0 ? -1 : seconds / done * static_cast<double>(sequences_) - seconds});
}

void EvaluateReport::write(const std::vector<DocumentLoss>& documents) {
  std::vector<EvaluationRow> rows;
  std::ranges::transform(documents, std::back_inserter(rows), row_of);
  metrics_.append(rows, row_of(losses_.total()));
}

/// Prints a line every ten seconds.
void EvaluateReport::print_progress() {
  constexpr double kIntervalSeconds = 10;
  const double seconds = watch_.seconds();
  if (seconds - printed_seconds_ < kIntervalSeconds) return;
  printed_seconds_ = seconds;
  console::line("evaluated {} of {} sequences  loss {:.5f}  {:.0f} tokens/s", sequences_done_, sequences_,
                losses_.total().loss(), static_cast<double>(losses_.total().targets) / seconds);
}

void EvaluateReport::finish() {
  if (!metrics_) return;
  write(losses_.finish());
  metrics_.close();
  tell_progress();
  const DocumentLoss& total = losses_.total();
  console::line("evaluated {} of {}: loss {:.5f} nat/token, perplexity {:.4f}, {:.0f} tokens/s",
                counted(total.targets, "token"), counted(losses_.documents(), "document"), total.loss(),
                total.perplexity(), static_cast<double>(total.targets) / watch_.seconds());
  if (!metrics_.lack().empty())
    fail({ExitCode::kIo, "io.write"}, "everything was evaluated, but the metrics file lacks results: {}",
         metrics_.lack());
}

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
  const std::int64_t batches = tokens.batches_in_order(config.train.batch_sequences);
  for (std::int64_t number = 0; number < batches; ++number) {
    fault_point("evaluate.step", context.comm.rank());
    context.comm.set_deadline("evaluate", config.deadline.evaluate_seconds);
    const Batch batch = tokens.batch_in_order(number, config.train.batch_sequences);
    report.add(batch, evaluator.losses(batch));
  }
  report.finish();
}

const JobRegistration kEvaluate(JobKind::kEvaluate, computing<evaluate>());

}  // namespace
}  // namespace sluice
