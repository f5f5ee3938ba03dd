#include "held_out.hpp"

#include "base/fault.hpp"
#include "job/prepare/options_of_job.hpp"
#include "train/evaluator.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace sluice {

HeldOut::HeldOut(JobContext& context, const std::vector<std::filesystem::path>& token_files)
    : context_(context) {
  const JobConfig& config = context.config();
  if (config.evaluate.every_steps == 0) return;
  for (const std::filesystem::path& tokens : token_files)
    sources_.emplace_back(context.comm,
                          held_out_options(config, tokens, context.blueprint.model.config.vocab_size));
}

HeldOutLoss HeldOut::after_step(std::int64_t step, StageBinder& binder) {
  const JobConfig& config = context_.config();
  HeldOutLoss out;
  out.files.assign(sources_.size(), out.all);
  if (sources_.empty() || (step % config.evaluate.every_steps != 0 && step != config.train.steps)) return out;
  std::vector<double> all;
  for (std::size_t file = 0; file < sources_.size(); ++file) {
    const std::vector<double> sums = evaluate(sources_[file], binder);
    out.files[file] = loss_of(sums);
    all.resize(sums.size());
    std::ranges::transform(all, sums, all.begin(), std::plus());
  }
  out.all = loss_of(all);
  return out;
}

/// Loss from sums over targets, or over pairs.
double HeldOut::loss_of(std::span<const double> sums) const {
  const JobConfig& config = context_.config();
  return config.job.kind == JobKind::kPrefer ? preference_loss(config.prefer, sums) : sums[0] / sums[1];
}

/// Collective over the context's communicator. Sums over a file: PreferenceSums of its pairs, or the losses and the
/// number of its targets.
std::vector<double> HeldOut::evaluate(BatchSource& source, StageBinder& binder) const {
  const JobConfig& config = context_.config();
  Evaluator evaluator(context_.comm, context_.blueprint.model.config, binder, config.data.sequence_length,
                      config.train.micro_batch_sequences);
  const bool prefers = config.job.kind == JobKind::kPrefer;
  std::vector<double> sums(prefers ? kPreferenceSumCount : 2, 0.0);
  const std::int64_t batches = source.batches_in_order(config.train.batch_sequences);
  for (std::int64_t number = 0; number < batches; ++number) {
    fault_point("evaluate.step", context_.comm.rank());
    context_.comm.set_deadline("evaluate", config.deadline.evaluate_seconds);
    const Batch batch = source.batch_in_order(number, config.train.batch_sequences);
    if (prefers) {
      const PreferenceSums of_batch = evaluator.preferences(batch, config.prefer);
      std::ranges::transform(sums, of_batch, sums.begin(), std::plus());
      continue;
    }
    const std::vector<double> losses = evaluator.losses(batch);
    sums[0] = std::accumulate(losses.begin(), losses.end(), sums[0]);
    sums[1] += static_cast<double>(count_targets(batch));
  }
  context_.comm.all_reduce_sum(std::span(sums));
  return sums;
}

}  // namespace sluice
