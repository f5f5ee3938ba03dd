#include "train_report.hpp"

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "device/memory.hpp"
#include "job/console.hpp"
#include "metrics/expert_use.hpp"
#include "ops/runtime/library.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// Seconds left after `step`, at the mean rate since the end of this run's first one, which also compiles
/// kernels and takes its memory; -1 after the first step.
double seconds_left(std::int64_t step, std::int64_t first, std::int64_t total, double seconds_since_first) {
  if (step == total) return 0;
  if (step <= first) return -1;
  return seconds_since_first / static_cast<double>(step - first) * static_cast<double>(total - step);
}

/// Every rank's number, on every rank. Collective over `comm`.
std::vector<std::int64_t> of_ranks(Communicator& comm, std::int64_t own) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(comm.size()), 0);
  numbers[static_cast<std::size_t>(comm.rank())] = own;
  comm.all_reduce_max(std::span(numbers));
  return numbers;
}

std::vector<std::int64_t> training_bytes(const std::vector<RankMemory>& planned) {
  std::vector<std::int64_t> bytes;
  for (const RankMemory& rank : planned) bytes.push_back(rank.compute_total());
  return bytes;
}

/// All at once, as they will compute. Collective over the context's communicator.
double product_rate_of_ranks(const JobContext& context) {
  context.comm.barrier();
  double rate = ops::product_rate(context.config().model.dtype);
  context.comm.all_reduce_sum(std::span(&rate, 1));
  return rate;
}

/// Phases that add up to the step: what the trainer did not count (reading tokens, dumps) is the last one's,
/// "other".
std::vector<double> phases_of_step(const PhaseSeconds& phases, double step_seconds) {
  std::vector<double> out(phases.begin(), phases.end());
  out.back() += step_seconds - std::accumulate(phases.begin(), phases.end(), 0.0);
  return out;
}

/// "  held out 4.12345, 3.98765", or nothing.
std::string held_out_text(const std::vector<double>& losses) {
  std::string text;
  for (const double loss : losses)
    if (!std::isnan(loss)) text += fmt::format("{}{:.5f}", text.empty() ? "  held out " : ", ", loss);
  return text;
}

}  // namespace

TrainReport::TrainReport(JobContext& context, const std::optional<LoadReport>& load,
                         std::int64_t held_out_files, std::int64_t sources, std::int64_t samples)
    : context_(context),
      flops_per_token_(training_operations(context.blueprint.model,
                                           context.blueprint.stages.lowest_trained_layer(context.plan))),
      product_rate_(product_rate_of_ranks(context)),
      planned_(context.memory_plan()),
      planned_bytes_(training_bytes(planned_)),
      growth_(context.baseline),
      metrics_(context, load,
               {.steps = context.config().train.steps,
                .held_out_files = held_out_files,
                .sources = sources,
                .samples = samples}) {
  if (metrics_ && has_gpus())
    console::line("compute   {}; {:.3f} TFLOP/s of matmuls on all ranks", device_text(context.device),
                  product_rate_ / 1e12);
  else if (metrics_)
    console::line("compute   {}, float32 by {}, on rank 0; {:.3f} TFLOP/s of matmuls on all ranks",
                  ops::means_text(), ops::blas_text(), product_rate_ / 1e12);
  log::debug("compute   {}, float32 by {}", ops::means_text(), ops::blas_text());
  if (metrics_ && !has_gpus() && ops::blas_has_own_threads() && ops::thread_count() > 1)
    log::warning(
        "this OpenBLAS keeps threads of its own, which compete with the {} compute threads of each rank: "
        "matmuls of float32 copies take longer. Install libopenblas0-openmp and choose it with "
        "update-alternatives, or set parallel.threads = 1 and start more ranks",
        ops::thread_count());
}

void TrainReport::add(std::int64_t step, const StepMetrics& metrics, double learning_rate, double seconds,
                      std::vector<double> held_out, std::vector<double> epochs) {
  peaks_ = of_ranks(context_.comm, peak_resident_bytes());
  growths_ = of_ranks(context_.comm, growth_.peak_bytes());
  device_peak_ = std::max(device_peak_, used_device_bytes());
  if (has_gpus()) device_peaks_ = of_ranks(context_.comm, device_peak_);
  const std::vector<double> phases = phases_of_step(metrics.phase_seconds, seconds);
  std::ranges::transform(phases, phase_seconds_, phase_seconds_.begin(), std::plus());
  if (!metrics_) return;
  TrainRow row;
  row.step = step;
  row.loss = metrics.loss;
  row.grad_norm = metrics.grad_norm;
  row.learning_rate = learning_rate;
  row.tokens = metrics.tokens;
  const JobConfig& config = context_.config();
  row.filled = static_cast<double>(metrics.tokens) /
               static_cast<double>(config.train.batch_sequences * config.data.sequence_length);
  row.step_seconds = seconds;
  row.tokens_per_second = static_cast<double>(metrics.tokens) / seconds;
  row.model_flops_per_second = flops_per_token_ * row.tokens_per_second;
  row.mfu = row.model_flops_per_second / product_rate_;
  row.communicated_bytes = metrics.communicated_bytes;
  row.phase_seconds = phases;
  row.expert_tokens = metrics.expert_tokens;
  row.aux_loss = metrics.aux_loss;
  if (config.train.router_z_loss > 0) row.z_loss = metrics.z_loss;
  row.held_out_loss = std::move(held_out);
  row.epochs = std::move(epochs);
  row.left_out = metrics.left_out == LeftOut::kNo ? 0 : 1;
  row.peak_bytes = peaks_;
  row.planned_bytes = planned_bytes_;
  row.peak_growth_bytes = growths_;
  row.device_peak_bytes = device_peaks_;
  metrics_.append(row);
  if (first_step_ == 0) {
    first_step_ = step;
    since_first_.restart();
  }
  progress_ = {
      .done = step,
      .total = context_.config().train.steps,
      .loss = row.loss,
      .tokens_per_second = row.tokens_per_second,
      .seconds_left = seconds_left(step, first_step_, context_.config().train.steps, since_first_.seconds())};
  context_.directory.set_progress(progress_);
  print_step(row);
}

std::string TrainReport::expert_text(const TrainRow& row) const {
  if (row.expert_tokens.empty()) return "";
  const ExpertUse use = expert_use(row.expert_tokens, context_.blueprint.model.config.experts);
  return fmt::format("  experts to {:.1f}x{}{}", use.busiest,
                     use.unused == 0 ? "" : fmt::format(", {} unused", use.unused),
                     std::isnan(row.z_loss) ? "" : fmt::format(", z-loss {:.4g}", row.z_loss));
}

void TrainReport::print_step(const TrainRow& row) const {
  const JobConfig& config = context_.config();
  const std::int64_t total = config.train.steps;
  const std::string held_out = held_out_text(row.held_out_loss);
  if (row.step % config.metrics.log_every != 0 && row.step != first_step_ && row.step != total &&
      held_out.empty() && row.left_out == 0)
    return;
  console::line(
      "step {}/{}  loss {:.5f}{}  grad norm {:.4f}  lr {:.3e}  {:.0f} tokens/s  {:.3f} TFLOP/s (MFU {:.0f} "
      "%){}  peak {}  left {}{}",
      row.step, total, row.loss, held_out, row.grad_norm, row.learning_rate, row.tokens_per_second,
      row.model_flops_per_second / 1e12, 100 * row.mfu, expert_text(row),
      format_mib(*std::ranges::max_element(row.peak_bytes)), console::time_text(progress_.seconds_left),
      row.left_out != 0 ? "  update skipped" : "");
}

void TrainReport::log_phases() const {
  std::string text;
  for (std::size_t i = 0; i < phase_seconds_.size(); ++i)
    text += fmt::format("{}{} {:.2f} s", i == 0 ? "" : ", ", kPhaseNames[i], phase_seconds_[i]);
  log::debug("steps     {}", text);
}

void TrainReport::add(const std::vector<SampleRow>& samples) {
  for (const SampleRow& sample : samples) metrics_.append(sample);
}

void TrainReport::finish() {
  log_phases();
  if (!metrics_) return;
  metrics_.close();
  std::vector<std::vector<std::string>> rows{{"memory"}};
  for (const auto& [name, bytes] : planned_.front().parts())
    if (name != "staging") rows.front().emplace_back(name);
  rows.front().insert(rows.front().end(), {"planned", "measured", "process"});
  if (has_gpus()) rows.front().emplace_back("GPU");
  for (std::size_t rank = 0; rank < planned_.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : planned_[rank].parts())
      if (name != "staging") row.push_back(format_mib(bytes));
    row.push_back(format_mib(planned_bytes_[rank]));
    row.push_back(growths_.empty() ? "-" : format_mib(growths_[rank]));
    row.push_back(peaks_.empty() ? "-" : format_mib(peaks_[rank]));
    if (has_gpus()) row.push_back(device_peaks_.empty() ? "-" : format_mib(device_peaks_[rank]));
  }
  console::write_line(console::table(rows));
  console::line(
      "  (measured: peak above what the process took before the model; process: its peak as a whole, with "
      "code and libraries, {} before the model on rank 0)",
      format_mib(context_.baseline.anonymous_bytes + context_.baseline.file_bytes +
                 context_.baseline.shared_bytes));
  if (has_gpus())
    console::line("  (of main memory both; GPU: the most that was taken of it after a step, by whomever)");
}

}  // namespace sluice
