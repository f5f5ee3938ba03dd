#include "job/saving/training_state.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "checkpoint/hosts/renew_copies.hpp"
#include "checkpoint/restore.hpp"
#include "comm/run_together.hpp"
#include "io/staged_directory.hpp"
#include "job/export_model.hpp"
#include "job/plan/resume_point.hpp"
#include "job/prepare/save_plan.hpp"
#include "job/prepare/target_place.hpp"
#include "manifest/adapter_targets.hpp"
#include "process/console.hpp"
#include "process/rank_record.hpp"
#include "shard/arena_access.hpp"
#include "weights/companion_files.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Prints what each host will save, and which checkpoints the hosts have.
void print_disks(const JobContext& context, const SaveDisks& disks, const std::optional<FoundStep>& found) {
  console::line("          no file system is shared: {}",
                hosts_text(step_bytes_of_disks(context.plan.ranks, disks.disks, disks.partner_copies(),
                                               context.plan.shards.dims()),
                           context.config()));
  console::line("          {} on {}",
                found ? fmt::format("step {} is whole", found->step.step) : "no step is saved",
                fmt::join(disks.hosts, ", "));
}

/// Names unfinished checkpoints that killed runs were writing or removing.
void name_leftovers(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    if (entry.path().filename().string().starts_with(".step-"))
      log::warning("{} is an incomplete checkpoint from an interrupted save; it is safe to delete",
                   entry.path().string());
}

/// Prints what will be saved and where, what is resumed and which keys differ since; warns of what earlier runs left in
/// the directory of all steps. `disks`: nothing if no steps are saved; `found`: nothing in a new training;
/// `superseded_steps`: steps of this host that the first save removes.
void print_checkpoint_plan(const JobContext& context, const fs::path& directory,
                           const std::optional<SaveDisks>& disks, const std::optional<FoundStep>& found,
                           std::size_t superseded_steps) {
  console::line("saves     {}", save_text(context.config(), context.plan.saves.step_bytes));
  if (disks && !disks->are_shared()) print_disks(context, *disks, found);
  if (found) console::line("resume    {}", resume_text(context.config(), *found));
  name_leftovers(directory);
  if (!found && superseded_steps > 0)
    log::warning(
        "{} checkpoints of an earlier training in {} are not resumed; they go when this one saves its first "
        "step",
        superseded_steps, directory.string());
}

/// Collective over the context's communicator. Fills `state` from the checkpoint, on the hosts that have its files;
/// rank 0 prints how much came from other hosts. Errors as restore_step(), on every rank alike.
RestoreReport restore_held(JobContext& context, const HeldStep& held, std::span<const StateSpan> state) {
  const RestoreReport report =
      restore_step(context.comm, held.found.step, held.found.path,
                   StepReaders(held.holders, RankDisks(context.plan.machine.nodes)),
                   context.blueprint.model.manifest, state, context.config().deadline.save_seconds);
  std::int64_t fetched = report.fetched_bytes;
  context.comm.all_reduce_sum(std::span(&fetched, 1));
  if (fetched > 0 && context.is_root())
    console::line("fetched   {} of step {} from hosts that have them", format_bytes(fetched),
                  held.found.step.step);
  return report;
}

/// Collective over the context's communicator. Renews copies that a checkpoint lacks, if hosts keep copies; rank 0
/// prints what was copied. Errors as renew_copies().
void renew_lost_copies(JobContext& context, const HeldStep& held, const SaveDisks& disks) {
  if (!disks.has_copies) return;
  const Stopwatch watch;
  const std::int64_t bytes =
      renew_copies(context.comm, held, disks.disks, context.config().deadline.save_seconds);
  if (bytes > 0 && context.is_root())
    console::line("copied    {} of step {} to hosts that lacked them, in {:.2f} s", format_bytes(bytes),
                  held.found.step.step, watch.seconds());
}

}  // namespace

TrainingState::TrainingState(JobContext& context, BatchSource& data)
    : context_(context),
      settings_(context.config().checkpoint),
      directory_(checkpoint_directory(context.config())),
      data_(data),
      data_digest_(data.sample_digest()),
      whole_data_digest_(data.whole_digest()),
      nodes_(context.plan.machine.nodes),
      schedule_(context.comm, context.signals, settings_) {
  take(context_.plan.resumed);
  if (settings_.saves()) require_place();
  if (context_.is_root())
    print_checkpoint_plan(context_, directory_, save_disks_, found_, superseded_.size());
}

bool TrainingState::is_done() const {
  return found_ && (steps_done() >= context_.config().train.steps || is_out_of_patience());
}

void TrainingState::tell_done() const {
  const std::int64_t steps = context_.config().train.steps;
  context_.directory.set_done_before({.done = steps_done(), .total = steps});
  context_.directory.set_best(best_.step, best_.loss);
  context_.directory.set_saved(saved_step_, found_->step.saved);
  const bool has_all_steps = steps_done() >= steps;
  if (!has_all_steps) context_.note = fmt::format("ended after step {}: {}", steps_done(), patience_text());
  console::line(
      "done already: step {} is saved and {}; a larger one goes on from there, job.overwrite = true begins "
      "anew",
      steps_done(), has_all_steps ? fmt::format("train.steps is {}", steps) : patience_text());
}

void TrainingState::begin_steps() {
  begin_pass(training_->weights,
             // Announces a forward pass: otherwise the loaded weights would be written to the disk in the
             // first step.
             ArenaPass::kForward);
  context_.directory.set_status("training");
  if (!settings_.saves()) return context_.signals.set_exit_code({});
  schedule_.begin_steps();
}

void TrainingState::end_steps(std::int64_t step) {
  schedule_.end_steps();
  if (saved_step_ == step) context_.signals.set_exit_code(ExitCode::kResumable);
}

/// Collective over the context's communicator. Takes the checkpoint that was found, the same on all ranks.
void TrainingState::take(const std::optional<HeldStep>& held) {
  found_.reset();
  if (held) {
    found_ = held->found;
    holders_ = held->holders;
    run_together(context_.comm, [&] { check_same_training(); });
  }
  saved_step_ = steps_done();
  best_ = found_ ? found_->step.best : HeldOutStep{};
  held_out_ = found_ ? found_->step.held_out : HeldOutProgress{};
  superseded_.clear();
  last_attempt_ = found_ ? found_->step.attempt : 0;
  run_together(context_.comm, [&] {
    if (!nodes_.is_first(context_.comm.rank())) return;
    for (const StepPlace& place : list_steps(directory_)) {
      if (found_ && place.step <= steps_done()) continue;
      superseded_.push_back(place.path);
      static_cast<void>(
          outcome_of([&] { last_attempt_ = std::max(last_attempt_, read_manifest(place.path).attempt); }));
    }
  });
  context_.comm.all_reduce_max(std::span(&last_attempt_, 1));
}

void TrainingState::check_same_training() const {
  require_same_model(*found_, context_.blueprint);
  require_same_data(*found_, context_.config().data,
                    {data_.sequence_count(), data_digest_, whole_data_digest_});
}

void TrainingState::find_base() {
  if (const auto digest = std::exchange(find_digest_, {})) base_digest_ = digest();
  check_same_base();
}

void TrainingState::check_same_base() const {
  if (found_ && !find_digest_) require_same_base(*found_, context_.config().model, base_digest_);
}

/// Collective over the context's communicator. Tries the place of checkpoints now, not after hours.
void TrainingState::require_place() {
  run_on_root(context_.comm, [&] { require_creatable("checkpoint.path", directory_ / "step"); });
  save_disks_ = find_save_disks(context_.comm, context_.plan.machine.nodes, context_.config());
  const RankDisks& disks = save_disks_->disks;
  const int rank = context_.comm.rank();
  const std::vector<std::int64_t> bytes = step_bytes_of_disks(
      context_.plan.ranks, disks, save_disks_->partner_copies(), context_.plan.shards.dims());
  run_together(context_.comm, [&] {
    if (disks.is_first(rank))
      require_room_for_steps(context_.config(), bytes[static_cast<std::size_t>(disks.of(rank))]);
  });
}

void TrainingState::attach(SavedTraining training) {
  training_.emplace(std::move(training));
  if (resumes()) restore();
}

void TrainingState::restore() {
  context_.comm.set_deadline("restore", context_.config().deadline.save_seconds);
  const WholeAccess access(training_->weights, WholeAccess::Access::kWrite);
  const std::vector<StateSpan> state = training_->list();
  for (;;) {
    try {
      const RestoreReport report = restore_held(context_, {*found_, holders_}, state);
      log::debug("restore   {} in {:.2f} s", format_bytes(report.bytes), report.seconds);
      if (context_.is_root())
        console::line("restored  step {}: {} on rank 0 in {:.2f} s", steps_done(), format_bytes(report.bytes),
                      report.seconds);
      break;
    } catch (const Error& error) {
      if (settings_.resume != CheckpointSettings::kResumeNewest) throw;
      // A disk that fails today may work tomorrow, so the checkpoint is not given up for an older one.
      if (error.code() == ExitCode::kIo) fail(error.cause(), "{}{}", error.what(), older_step_text());
      if (error.code() != ExitCode::kBadData) throw;
      fall_back(error.what());
    }
  }
  if (save_disks_) renew_lost_copies(context_, {*found_, holders_}, *save_disks_);
  data_.go_on(steps_done(), found_->step.packing);
  context_.directory.set_best(best_.step, best_.loss);
  context_.directory.set_saved(saved_step_, found_->step.saved);
  schedule_.restart_interval();
}

void TrainingState::rewind(std::int64_t step) {
  settle();
  context_.comm.set_deadline("rewind", context_.config().deadline.save_seconds);
  const WholeAccess access(training_->weights, WholeAccess::Access::kWrite);
  const HeldSteps steps(context_.comm, nodes_, directory_);
  const HeldStep held = steps.read({step, directory_ / step_name(step)});
  const RestoreReport report = restore_held(context_, held, training_->list());
  if (context_.is_root())
    console::line("rewound   to the weights of step {}: {} on rank 0 in {:.2f} s", step,
                  format_bytes(report.bytes), report.seconds);
}

/// Text about older checkpoints from which the job could resume if told to, or "".
std::string TrainingState::older_step_text() const {
  std::string text;
  for (const StepPlace& place : list_steps(directory_))
    if (place.step < steps_done())
      text = fmt::format(". If that lasts, checkpoint.resume = {} goes on from an older step", place.step);
  return text;
}

/// Collective over the context's communicator. Turns to the newest complete checkpoint before the one that
/// could not be restored; Error(kBadData) if there is none.
void TrainingState::fall_back(const std::string& reason) {
  const HeldSteps all(context_.comm, nodes_, directory_);
  std::optional<HeldStep> older;
  for (auto it = all.steps().rbegin(); it != all.steps().rend() && !older; ++it)
    if (it->step < steps_done())
      static_cast<void>(outcome_of([&] { older = all.read(*it); }));  // fails on all ranks alike
  run_on_root(context_.comm, [&] {
    if (!older) fail({ExitCode::kBadData, "checkpoint.damaged"}, "{}; there is no older checkpoint", reason);
    log::warning("{}\n  Step {} is taken instead", reason, older->found.step.step);
  });
  take(older);
  check_same_base();
}

bool TrainingState::is_out_of_patience() const {
  const std::int64_t patience = context_.config().evaluate.patience;
  return patience > 0 && held_out_.since >= patience;
}

std::string TrainingState::patience_text() const {
  return fmt::format(
      "the held-out loss has not fallen below {:.5f} (step {}) in {} evaluations (evaluate.patience)",
      held_out_.lowest.loss, held_out_.lowest.step, held_out_.since);
}

bool TrainingState::wants_best() const {
  const JobConfig& config = context_.config();
  return config.evaluate.patience > 0 || config.export_.at_end == ExportAtEnd::kBest;
}

bool TrainingState::after_step(std::int64_t step, double held_out_loss) {
  if (find_digest_) find_base();
  newest_ = std::isnan(held_out_loss) ? HeldOutStep{} : HeldOutStep{step, held_out_loss};
  const bool is_lowest = newest_.step > 0 && held_out_.add(step, held_out_loss);
  if (!settings_.saves()) return false;
  const AfterStep after = schedule_.after_step(step, save_ && !save_->is_written());
  const bool is_last = step == context_.config().train.steps || is_out_of_patience();
  if (save_ && !after.is_writing) finish_save();
  if (is_last || after.ends_job())
    save(step);
  else if (after.saves || (is_lowest && wants_best()))
    begin_save(step);
  if (!after.ends_job() || is_last) return false;
  require_saved();
  if (context_.is_root())
    console::line("ended     by {} after step {}, which is saved: run again to go on", after.cause(), step);
  return true;
}

void TrainingState::save(std::int64_t step) {
  if (settings_.saves() && save_) finish_save();
  if (!settings_.saves() || step == saved_step_) return;
  begin_save(step);
  if (save_) finish_save();
}

void TrainingState::attempt(std::int64_t step, const std::function<void()>& act) {
  context_.comm.set_deadline("save", context_.config().deadline.save_seconds);
  try {
    act();
    failure_ = {};
  } catch (const Error& error) {
    save_.reset();
    if (error.code() != ExitCode::kIo || settings_.on_failure == SaveFailure::kStop) throw;
    failure_ = current_failure();
    if (context_.is_root())
      log::warning(
          "STEP {} COULD NOT BE SAVED. The run goes on and will try again; the last checkpoint: {}: {}", step,
          saved_step_ == 0 ? "none" : fmt::format("{}", saved_step_), failure_.text);
  }
}

/// Collective over the context's communicator. Begins a save, after waiting for one that is still in
/// progress.
void TrainingState::begin_save(std::int64_t step) {
  if (save_) finish_save();
  schedule_.restart_interval();
  attempt(step, [&] {
    const ShardArena& weights = training_->weights;
    settle_pages(weights);
    training_->require_sound();
    SaveRequest request{.directory = directory_,
                        .manifest = context_.blueprint.model.manifest,
                        .state = training_->list(),
                        .paged = weights.paged() == nullptr ? nullptr : &weights,
                        .description = describe(step),
                        .keep = settings_.keep,
                        .keep_every = settings_.keep_every,
                        .superseded = superseded_,
                        .disks = save_disks_->disks,
                        .hosts = save_disks_->hosts,
                        .has_copies = save_disks_->has_copies,
                        .sets = context_.plan.shards.dims().replicas,
                        .limit_seconds = context_.config().deadline.save_seconds};
    if (context_.is_root()) request.companions = companion_files(context_.config().model.path).files;
    saving_step_ = step;
    save_ = std::make_unique<StepSave>(context_.comm, std::move(request));
  });
}

void TrainingState::finish_save() {
  attempt(saving_step_, [&] {
    report_saved(save_->finish());
    save_.reset();
  });
}

void TrainingState::report_saved(const SaveReport& report) {
  saved_step_ = saving_step_;
  best_ = report.best;
  schedule_.add_save(report.seconds);
  superseded_.clear();
  context_.directory.set_best(best_.step, best_.loss);
  context_.directory.set_saved(saved_step_);
  if (!context_.is_root()) return;
  announce_saved_step(context_.comm.rank(), saved_step_);
  console::line(
      "saved     step {}: {}{} in {:.2f} s, of which {:.2f} s were waited for{}", saved_step_,
      format_bytes(report.bytes),
      report.copied_bytes > 0 ? fmt::format(" and {} of copies", format_bytes(report.copied_bytes)) : "",
      report.seconds, report.waited_seconds,
      best_.step == saved_step_ ? fmt::format("; the best so far, held out {:.5f}", best_.loss) : "");
}

SavedStep TrainingState::describe(std::int64_t step) const {
  const bool is_better =
      newest_.step == step && std::isfinite(newest_.loss) && (best_.step == 0 || newest_.loss < best_.loss);
  const Blueprint& blueprint = context_.blueprint;
  return {.step = step,
          // Rank 0's host may be a new one, without the status of earlier attempts.
          .attempt = std::max(context_.directory.attempt(), last_attempt_ > 0 ? last_attempt_ + 1 : 0),
          .saved = utc_now(),
          .version = std::string(version()),
          .structure_hash = context_.blueprint.model.manifest.structure_hash().hex(),
          .world_size = context_.comm.size(),
          .job = canonical_entries(context_.config()),
          .started_in = fs::current_path(),
          .sequences = data_.sequence_count(),
          .data_digest = data_digest_,
          .whole_data_digest = whole_data_digest_,
          .packing = data_.positions(step),
          .base_digest = base_digest_,
          .adapters = {blueprint.model.adapters, adapter_style(blueprint)},
          .best = is_better ? newest_ : best_,
          .held_out = held_out_,
          .files = {}};
}

void TrainingState::require_saved() const {
  if (failure_.failed())
    fail(failure_, "the last step could not be saved, and the last one that was is {}: {}",
         saved_step_ == 0 ? "none" : fmt::format("step {}", saved_step_), failure_.text);
}

}  // namespace sluice
