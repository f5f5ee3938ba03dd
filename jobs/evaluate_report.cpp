#include "evaluate_report.hpp"
#include "base/text.hpp"

#include "comm/root_exchange.hpp"
#include "process/console.hpp"

#include <algorithm>

namespace sluice {
namespace {

EvaluationRow row_of(const DocumentLoss& loss) { return {loss.targets, loss.loss(), loss.perplexity()}; }

}  // namespace

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

}  // namespace sluice
