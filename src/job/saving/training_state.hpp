// Saves a training's state from time to time, and restores it when the job is started again.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "checkpoint/save.hpp"
#include "checkpoint/state_spans.hpp"
#include "checkpoint/step_directory.hpp"
#include "data/batch_source.hpp"
#include "job/job.hpp"
#include "job/saving/save_disks.hpp"
#include "job/saving/save_schedule.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// State of a training that is saved and restored. `weights` must outlive a save in progress.
struct SavedTraining {
  const ShardArena& weights;
  /// Function that lists this rank's present state: weights and optimizer state.
  std::function<std::vector<StateSpan>()> list;
  /// Function called before a save, collective over the context's communicator: throws if the state must not
  /// be saved.
  std::function<void()> require_sound;
};

/// The checkpoints of a training: what it resumes from, what it saves, and what it goes back to.
class TrainingState {
 public:
  /// Collective over the context's communicator. Takes the step that the plan resumes, and if steps will be saved
  /// tries whether every rank can write where they go and whether there is room for them; rank 0 prints what
  /// will be saved. `data` must outlive this. Error(kBadConfig) for another model than the saved one; Error(kBadData)
  /// if the tokens are not those of the saved training; Error(kIo) if nothing can be saved.
  TrainingState(JobContext& context, BatchSource& data);

  [[nodiscard]] bool resumes() const { return found_.has_value(); }
  /// Number of steps that the state has behind it: 0 for a new training.
  [[nodiscard]] std::int64_t steps_done() const { return found_ ? found_->step.step : 0; }

  /// Whether the checkpoint is of the job's last step, by train.steps or evaluate.patience, so that nothing
  /// is left to train.
  [[nodiscard]] bool is_done() const;
  /// Repeats what an earlier run told at the end of a job that is_done(); on rank 0.
  void tell_done() const;

  /// Last step that was saved or resumed from; 0: none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  /// Checkpoint with the lowest held-out loss; step 0: none.
  [[nodiscard]] const HeldOutStep& best() const { return best_; }
  /// Whether evaluate.patience evaluations in a row, including those before a resume, have found no lower
  /// loss.
  [[nodiscard]] bool is_out_of_patience() const;
  /// Text for an end by patience: "the held-out loss has not fallen below 5.1 (step 40) in 3 evaluations
  /// (evaluate.patience)".
  [[nodiscard]] std::string patience_text() const;

  /// Collective `digest` gives that of the frozen weights as they were loaded, by find_base(), or by
  /// after_step() where none was found before: weights in files are known after a pass over them.
  void set_base(std::function<std::string()> digest) { find_digest_ = std::move(digest); }
  /// Collective over the context's communicator. Error(kBadData) if the checkpoint was trained with other
  /// frozen weights.
  void find_base();

  /// Collective. From here on `training` is saved. If the job resumes, it is filled from the saved step, and
  /// `data` goes on from there, or from an older one where its bytes are not what was saved, unless the job
  /// names the step.
  void attach(SavedTraining training);

  /// Collective over the context's communicator. Restores another checkpoint of this run, once a save in
  /// progress is done. Errors as HeldSteps::read() and restore_held(), on every rank alike.
  void rewind(std::int64_t step);

  /// Collective; before the first step and after the last, `step`. Between them a signal lets the step end
  /// and saves it; outside, where nothing is trained that is not saved, it ends the job at once.
  void begin_steps();
  void end_steps(std::int64_t step);

  /// Collective; after each step. Saves if it was the last step, by train.steps or as is_out_of_patience()
  /// says then, or if a signal asks the job to end; begins to save, beside the steps that follow, if it is
  /// time to, or if the job wants the best step and this one has the lowest held-out loss. True: the job
  /// shall end now, to go on when it is started again. Error(kIo) if saving fails and the job is to stop for
  /// that; else a failure is a warning. `held_out_loss`, NaN if there is none, makes the saved step with the
  /// lowest one stay.
  [[nodiscard]] bool after_step(std::int64_t step, double held_out_loss);

  /// Keeps a unit that must still be saved; must be called before the unit is updated, from after_step() on.
  void before_update(int unit) {
    if (save_) save_->keep(unit);
  }

  /// Collective over the context's communicator. Saves step `step`, unless it is saved already or nothing is
  /// to be saved.
  void save(std::int64_t step);

  /// Collective over the context's communicator. Waits for a save in progress.
  void settle() {
    if (save_) finish_save();
  }

  /// Abandons a save in progress, so that the memory of the state may be freed.
  void give_up() { save_.reset(); }

  /// Error(kIo) if the last attempt to save failed.
  void require_saved() const;

 private:
  void take(const std::optional<HeldStep>& held);
  void check_same_training() const;
  void restore();
  void check_same_base() const;
  void require_place();
  [[nodiscard]] std::string older_step_text() const;
  void fall_back(const std::string& reason);
  [[nodiscard]] SavedStep describe(std::int64_t step) const;
  /// Collective over the context's communicator. Calls `act`, a part of saving a step; failures of all parts
  /// are treated alike.
  void attempt(std::int64_t step, const std::function<void()>& act);
  void begin_save(std::int64_t step);
  void finish_save();
  void report_saved(const SaveReport& report);
  /// Whether the job uses the best checkpoint, and so saves each new one.
  [[nodiscard]] bool wants_best() const;

  JobContext& context_;
  const CheckpointSettings& settings_;
  std::filesystem::path directory_;
  BatchSource& data_;
  std::string data_digest_;
  std::string whole_data_digest_;
  std::string base_digest_;                   ///< digest of the frozen weights; "" without any
  std::function<std::string()> find_digest_;  ///< function that computes base_digest_; empty once it has
  RankDisks nodes_;                           ///< disks on which checkpoints are searched
  std::optional<FoundStep> found_;
  FileHolders holders_;                            ///< disks that have the files of found_
  std::optional<SaveDisks> save_disks_;            ///< disks to which checkpoints are saved, if any are
  std::int64_t last_attempt_ = 0;                  ///< last attempt that has saved a checkpoint on any host
  std::vector<std::filesystem::path> superseded_;  ///< checkpoints on this host that the next save removes
  SaveSchedule schedule_;
  std::int64_t saved_step_ = 0;
  std::optional<SavedTraining> training_;
  std::unique_ptr<StepSave> save_;  ///< save in progress; null: none
  std::int64_t saving_step_ = 0;    ///< step of the save in progress
  HeldOutStep best_;                ///< best of the saved checkpoints
  HeldOutStep newest_;              ///< held-out loss of the last step, if it was evaluated
  HeldOutProgress held_out_;        ///< course of the held-out loss over all evaluations
  Outcome failure_;                 ///< failure of the last attempt to save
};

}  // namespace sluice
