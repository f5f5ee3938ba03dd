#include "held_out.hpp"

#include "base/fault.hpp"
#include "job/prepare/options_of_job.hpp"
#include "train/evaluator.hpp"

#include <algorithm>
#include <array>
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
  Sum all;
  for (std::size_t file = 0; file < sources_.size(); ++file) {
    const Sum sum = evaluate(sources_[file], binder);
    out.files[file] = sum.loss / sum.targets;
    all.loss += sum.loss;
    all.targets += sum.targets;
  }
  out.all = all.loss / all.targets;
  return out;
}

HeldOut::Sum HeldOut::evaluate(BatchSource& source, StageBinder& binder) const {
  const JobConfig& config = context_.config();
  Evaluator evaluator(context_.comm, context_.blueprint.model.config, binder, config.data.sequence_length,
                      config.train.micro_batch_sequences);
  std::array<double, 2> sums{};
  const std::int64_t end = source.sequence_count(), batch_sequences = config.train.batch_sequences;
  for (std::int64_t first = 0; first < end; first += batch_sequences) {
    fault_point("evaluate.step", context_.comm.rank());
    context_.comm.set_deadline("evaluate", config.deadline.evaluate_seconds);
    const Batch batch = source.sequences(first, std::min(batch_sequences, end - first));
    const std::vector<double> losses = evaluator.losses(batch);
    sums[0] = std::accumulate(losses.begin(), losses.end(), sums[0]);
    sums[1] += static_cast<double>(count_targets(batch));
  }
  context_.comm.all_reduce_sum(std::span<double>(sums));
  return {sums[0], sums[1]};
}

}  // namespace sluice
