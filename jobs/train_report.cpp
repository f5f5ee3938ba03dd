#include "train_report.hpp"

#include "base/memory/memory.hpp"
#include "device/memory.hpp"
#include "process/console.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace sluice {
namespace {

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
}

}  // namespace sluice
