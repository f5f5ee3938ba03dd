#include "train_report.hpp"

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/memory/memory.hpp"
#include "device/memory.hpp"
#include "metrics/expert_use.hpp"
#include "ops/runtime/library.hpp"
#include "process/console.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace sluice {
namespace {

bool has_gpus(const JobContext& context) { return context.plan.machine.device.kind == DeviceKind::kCuda; }

/// Collective over the context's communicator. Rate in FLOP/s of large matrix products over all ranks, which
/// compute at the same time, as in training.
double product_rate_of_ranks(const JobContext& context) {
  context.comm.barrier();
  double rate = ops::product_rate(context.config().model.dtype, context.plan.machine.device.memory());
  context.comm.all_reduce_sum(std::span(&rate, 1));
  return rate;
}

/// Prints on rank 0 what computes, with `product_rate` FLOP/s over all ranks, and warns of a BLAS whose
/// threads compete with others.
void tell_processor(const JobContext& context, double product_rate) {
  log::debug("compute   {}, float32 by {}", ops::means_text(), ops::blas_text());
  if (!context.is_root()) return;
  if (has_gpus(context))
    return console::line("compute   {}; {:.3f} TFLOP/s of matmuls on all ranks",
                         device_text(context.plan.machine.device), product_rate / 1e12);
  console::line("compute   {}, float32 by {}, on rank 0; {:.3f} TFLOP/s of matmuls on all ranks",
                ops::means_text(), ops::blas_text(), product_rate / 1e12);
  if (ops::blas_has_own_threads() && ops::thread_count() > 1)
    log::warning(
        "this OpenBLAS keeps threads of its own, which compete with the {} compute threads of each rank: "
        "matmuls of float32 copies take longer. Install libopenblas0-openmp and choose it with "
        "update-alternatives, or set parallel.threads = 1 and start more ranks",
        ops::thread_count());
}

/// Logs the seconds of each phase of this rank's steps.
void log_phases(const PhaseSeconds& seconds) {
  std::string text;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    text += fmt::format("{}{} {:.2f} s", i == 0 ? "" : ", ", kPhaseNames[i], seconds[i]);
  log::debug("steps     {}", text);
}

/// Prints planned and measured memory of each rank.
void print_memory(const JobContext& context, const std::vector<RankMemory>& planned, const RankPeaks& peaks) {
  const auto peak = [](const std::vector<std::int64_t>& of_ranks, std::size_t rank) {
    return of_ranks.empty() ? "-" : format_mib(of_ranks[rank]);
  };
  std::vector<std::vector<std::string>> rows{{"memory"}};
  for (const auto& [name, bytes] : planned.front().parts())
    if (name != "staging") rows.front().emplace_back(name);
  rows.front().insert(rows.front().end(), {"planned", "measured", "process"});
  if (has_gpus(context)) rows.front().emplace_back("GPU");
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    for (const auto& [name, bytes] : planned[rank].parts())
      if (name != "staging") row.push_back(format_mib(bytes));
    row.push_back(format_mib(planned[rank].compute_total()));
    row.push_back(peak(peaks.growth, rank));
    row.push_back(peak(peaks.resident, rank));
    if (has_gpus(context)) row.push_back(peak(peaks.device, rank));
  }
  console::write_line(console::table(rows));
  console::line(
      "  (measured: peak above what the process took before the model; process: its peak as a whole, with "
      "code and libraries, {} before the model on rank 0)",
      format_mib(context.baseline.anonymous_bytes + context.baseline.file_bytes +
                 context.baseline.shared_bytes));
  if (has_gpus(context))
    console::line("  (of main memory both; GPU: the most that was taken of it after a step, by whomever)");
}

/// Seconds of the phases, made to add up to the step: time that the trainer did not count (reading tokens,
/// dumps) goes to the last phase, "other".
std::vector<double> phases_of_step(const PhaseSeconds& phases, double step_seconds) {
  std::vector<double> out(phases.begin(), phases.end());
  out.back() += step_seconds - std::accumulate(phases.begin(), phases.end(), 0.0);
  return out;
}

/// Text of held-out losses, "  held out 4.12345, 3.98765", or "".
std::string held_out_text(const std::vector<double>& losses) {
  std::string text;
  for (const double loss : losses)
    if (!std::isnan(loss)) text += fmt::format("{}{:.5f}", text.empty() ? "  held out " : ", ", loss);
  return text;
}

/// Text of the preferences of a step, "  margin 0.1234, accuracy 75 %, log-probabilities -12.3 and -14.5"; "" in
/// a job that learns none.
std::string preference_text(const PreferenceRow& row) {
  if (std::isnan(row.margin)) return "";
  return fmt::format(
      "  rewards {:.4f} and {:.4f}, margin {:.4f}, accuracy {:.0f} %, log-probabilities {:.3f} and {:.3f}",
      row.chosen_reward, row.rejected_reward, row.margin, 100 * row.accuracy, row.chosen_log_prob,
      row.rejected_log_prob);
}

/// Text of the parts of a step's loss, "  own 3.21000, teacher 2.95000 (entropy 2.50000)"; "" in a job without a teacher.
std::string distil_text(const DistilRow& row) {
  if (std::isnan(row.own_loss)) return "";
  return fmt::format(
      "  own {:.5f}{}{}", row.own_loss,
      std::isnan(row.teacher_loss) ? "" : fmt::format(", teacher {:.5f}", row.teacher_loss),
      std::isnan(row.teacher_entropy) ? "" : fmt::format(" (entropy {:.5f})", row.teacher_entropy));
}

/// Text of the load of the busiest expert over the mean of its layer, "  experts to 2.1x, 3 unused"; ""
/// without MoE layers.
std::string expert_text(const TrainRow& row, std::int64_t experts) {
  if (row.expert_tokens.empty()) return "";
  const ExpertUse use = expert_use(row.expert_tokens, experts);
  return fmt::format("  experts to {:.1f}x{}{}", use.busiest,
                     use.unused == 0 ? "" : fmt::format(", {} unused", use.unused),
                     std::isnan(row.z_loss) ? "" : fmt::format(", z-loss {:.4g}", row.z_loss));
}

/// Row of a step that took `seconds`, without the columns of evaluations, sources and memory.
TrainRow row_of_step(std::int64_t step, const StepMetrics& metrics, double learning_rate, double seconds,
                     const StepRates& rates) {
  TrainRow row;
  row.step = step;
  row.loss = metrics.loss;
  row.grad_norm = metrics.grad_norm;
  row.learning_rate = learning_rate;
  row.tokens = metrics.tokens;
  row.filled = static_cast<double>(metrics.tokens) / static_cast<double>(rates.step_tokens);
  row.step_seconds = seconds;
  row.tokens_per_second = static_cast<double>(metrics.tokens) / seconds;
  row.model_flops_per_second = rates.flops_per_token * row.tokens_per_second;
  row.mfu = row.model_flops_per_second / rates.product_rate;
  row.communicated_bytes = metrics.communicated_bytes;
  row.phase_seconds = phases_of_step(metrics.phase_seconds, seconds);
  row.expert_tokens = metrics.expert_tokens;
  row.aux_loss = metrics.aux_loss;
  row.left_out = metrics.left_out == LeftOut::kNo ? 0 : 1;
  if (const auto& found = metrics.preferences)
    row.preferences = {found->chosen_reward, found->rejected_reward, found->margin(),
                       found->accuracy,      found->chosen_log_prob, found->rejected_log_prob};
  if (const auto& found = metrics.distil)
    row.distil = {found->own_loss, found->teacher_loss, found->teacher_entropy};
  return row;
}

/// Whether held-out tokens were evaluated after the step of this row.
bool has_held_out_loss(const TrainRow& row) {
  return std::ranges::any_of(row.held_out_loss, [](double loss) { return !std::isnan(loss); });
}

/// Line of a step, "step 3/100  loss 4.31204  grad norm ...", with `experts` experts in each MoE layer, and
/// the result of seconds_left().
std::string step_line(const TrainRow& row, std::int64_t steps, std::int64_t experts, double seconds_left) {
  return fmt::format(
      "step {}/{}  loss {:.5f}{}{}{}  grad norm {:.4f}  lr {:.3e}  {:.0f} tokens/s  {:.3f} TFLOP/s (MFU {:.0f} "
      "%){}  peak {}  left {}{}",
      row.step, steps, row.loss, held_out_text(row.held_out_loss), preference_text(row.preferences),
      distil_text(row.distil), row.grad_norm, row.learning_rate, row.tokens_per_second,
      row.model_flops_per_second / 1e12, 100 * row.mfu, expert_text(row, experts),
      format_mib(*std::ranges::max_element(row.peak_bytes)), console::time_text(seconds_left),
      row.left_out != 0 ? "  update skipped" : "");
}

/// Seconds that the steps after `step` until `total` will take, at the mean rate since the end of step
/// `first`. That is the first step of this start, which also compiles kernels and allocates memory; -1 after
/// it.
double seconds_left(std::int64_t step, std::int64_t first, std::int64_t total, double seconds_since_first) {
  if (step == total) return 0;
  if (step <= first) return -1;
  return seconds_since_first / static_cast<double>(step - first) * static_cast<double>(total - step);
}

/// Collective over `comm`. Every rank's number, on every rank.
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

/// Line of what all ranks send in a step, counted and planned, without its batch: "sent      12.40 MB ...".
std::string sent_text(const std::vector<StepTraffic>& planned, std::int64_t counted) {
  std::int64_t all = 0;
  for (const StepTraffic& rank : planned) all += rank.all() - rank.batch;
  return fmt::format("sent      {} by all ranks in a step, planned {}", format_bytes(counted),
                     format_bytes(all));
}

}  // namespace

TrainReport::TrainReport(JobContext& context, const std::optional<LoadReport>& load,
                         std::int64_t held_out_files, std::int64_t sources, std::int64_t samples)
    : context_(context),
      rates_{training_operations(context.blueprint.model,
                                 context.blueprint.stages.lowest_trained_layer(context.plan.shards)),
             product_rate_of_ranks(context),
             context.config().train.batch_sequences * context.config().data.sequence_length},
      planned_(context.plan.ranks),
      planned_bytes_(training_bytes(planned_)),
      growth_(context.baseline),
      metrics_(context, load,
               {.expected_rows = context.config().train.steps,
                .held_out_files = held_out_files,
                .prefers = context.config().job.kind == JobKind::kPrefer,
                .distils = context.config().distil.learns(),
                .sources = sources,
                .samples = samples}) {
  tell_processor(context, rates_.product_rate);
}

void TrainReport::add(std::int64_t step, const StepMetrics& metrics, double learning_rate, double seconds,
                      std::vector<double> held_out, std::vector<double> epochs) {
  peaks_.resident = of_ranks(context_.comm, peak_resident_bytes());
  peaks_.growth = of_ranks(context_.comm, growth_.peak_bytes());
  if (context_.plan.machine.device.kind == DeviceKind::kCuda) {
    device_peak_ = std::max(device_peak_, used_device_bytes());
    peaks_.device = of_ranks(context_.comm, device_peak_);
  }
  const JobConfig& config = context_.config();
  TrainRow row = row_of_step(step, metrics, learning_rate, seconds, rates_);
  std::ranges::transform(row.phase_seconds, phase_seconds_, phase_seconds_.begin(), std::plus());
  if (!metrics_) return;
  if (row.left_out == 0 && (least_sent_bytes_ == 0 || row.communicated_bytes < least_sent_bytes_))
    least_sent_bytes_ = row.communicated_bytes;
  if (config.train.router_z_loss > 0) row.z_loss = metrics.z_loss;
  row.held_out_loss = std::move(held_out);
  row.epochs = std::move(epochs);
  row.peak_bytes = peaks_.resident;
  row.planned_bytes = planned_bytes_;
  row.peak_growth_bytes = peaks_.growth;
  row.device_peak_bytes = peaks_.device;
  metrics_.append(row);
  if (first_step_ == 0) {
    first_step_ = step;
    since_first_.restart();
  }
  print_step(row);
}

void TrainReport::print_step(const TrainRow& row) const {
  const JobConfig& config = context_.config();
  const std::int64_t total = config.train.steps;
  const double left = seconds_left(row.step, first_step_, total, since_first_.seconds());
  context_.directory.set_progress({.done = row.step,
                                   .total = total,
                                   .loss = row.loss,
                                   .tokens_per_second = row.tokens_per_second,
                                   .seconds_left = left});
  const bool is_told = row.step % config.metrics.log_every == 0 || row.step == first_step_ ||
                       row.step == total || has_held_out_loss(row) || row.left_out != 0;
  if (is_told) console::write_line(step_line(row, total, context_.blueprint.model.config.experts, left));
}

void TrainReport::add(const std::vector<SampleRow>& samples) {
  for (const SampleRow& sample : samples) metrics_.append(sample);
}

void TrainReport::finish() {
  log_phases(phase_seconds_);
  if (!metrics_) return;
  metrics_.close();
  print_memory(context_, planned_, peaks_);
  if (least_sent_bytes_ > 0) console::line("{}", sent_text(context_.plan.step_traffic(), least_sent_bytes_));
}

}  // namespace sluice
