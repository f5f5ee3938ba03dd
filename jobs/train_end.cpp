#include "train_end.hpp"

#include "base/log.hpp"
#include "job/export_model.hpp"
#include "process/console.hpp"

#include <filesystem>
#include <span>
#include <system_error>

namespace sluice {
namespace {

/// Collective over the context's communicator. Restores the best checkpoint, which is exported in place of
/// the last step, `done`.
void take_best_step(JobContext& context, TrainingState& state, std::int64_t done) {
  const HeldOutStep best = state.best();
  if (best.step == 0 && context.is_root())
    log::warning("no checkpoint was evaluated, so the weights of step {} are exported", done);
  if (best.step == 0) return;
  if (context.is_root())
    console::line("best      step {} of {}, held out {:.5f}, is exported", best.step, done, best.loss);
  if (best.step != done) state.rewind(best.step);
}

}  // namespace

bool is_done_already(JobContext& context, const TrainingState& state) {
  const JobConfig& config = context.config();
  std::error_code error;
  const bool is_exported = !exports_weights(config) || (context.directory.was_done_before() &&
                                                        std::filesystem::exists(config.export_.path, error));
  std::int64_t is_done = state.is_done() && context.is_root() && is_exported ? 1 : 0;
  context.comm.all_reduce_max(std::span(&is_done, 1));
  if (is_done == 0)
    require_export(context);
  else if (context.is_root())
    state.tell_done();
  return is_done != 0;
}

void tell_of_patience(JobContext& context, const TrainingState& state, std::int64_t done) {
  context.note = fmt::format("ended after step {}: {}", done, state.patience_text());
  if (context.is_root()) console::line("ended     after step {}: {}", done, state.patience_text());
}

void export_trained(JobContext& context, TrainingState& state, Trainer& trainer, ShardArena& weights,
                    std::int64_t done) {
  if (!exports_weights(context.config())) return;
  if (context.config().export_.at_end == ExportAtEnd::kBest) take_best_step(context, state, done);
  trainer.require_finite_weights();
  export_model(context, trainer.optimizer().master(), weights);
}

}  // namespace sluice
