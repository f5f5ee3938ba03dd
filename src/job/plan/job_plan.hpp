// What a job will be: the one plan that a run goes by, and that `sluice plan` and `sluice check` tell of.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "comm/communicator.hpp"
#include "comm/outcome.hpp"
#include "job/plan/machine.hpp"
#include "job/prepare/blueprint.hpp"
#include "plan/memory_plan.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Staging of the load on each rank.
struct Staging {
  std::vector<std::int64_t> bytes;  ///< bytes of the loader's ring on each rank; 0 if nothing is loaded
  std::string not_exact;            ///< reason why `bytes` are only an upper bound, or ""
};

/// The load of a job's weights, as the process knows it that has read their headers: rank 0 of a run, and a command.
struct LoadOutline {
  struct Reader {
    int rank = 0;
    std::int64_t read_bytes = 0, sent_bytes = 0;
  };
  std::int64_t tensors = 0, files = 0, reads = 0, read_bytes = 0;
  std::vector<Reader> readers{};
  std::vector<std::string> skipped{};  ///< texts about tensors of the files that the job does not load
  Outcome fault{};                     ///< fault of the files, or of what they hold, or that there are none
};

/// Disk space of a training's checkpoints.
struct SavePlan {
  std::int64_t step_bytes = 0;  ///< bytes of one checkpoint: the state of all ranks
  /// Bytes of one checkpoint on the host that keeps most, if each node may save to a disk of its own; else 0.
  std::int64_t step_bytes_of_host = 0;
};

/// Plan of a job on given machines. Copies share the blueprint.
class JobPlan {
 public:
  /// Collective over `comm`, whose processes are the ranks planned for in a run, and one in a command. Makes the plan
  /// of the job in `written`, a blueprint without stored weights: takes the optimizer's mode of the step `resumed`, if
  /// the job goes on from one, or lets optimizer.fit choose it, takes as many copies of the model as fit where that is
  /// left to it, decides which weights stay as they are published and how ranks share the vocabulary, so that the job
  /// fits, and whether ranks keep frozen weights whole. Rank 0 alone reads headers of weights. Errors as
  /// stored_weights() and Blueprint::shard_plan().
  [[nodiscard]] static JobPlan make(Communicator& comm, const std::shared_ptr<const Blueprint>& written,
                                    const Machine& machine, std::optional<HeldStep> resumed = std::nullopt);

  /// The plan of this job with a changed setting that describes no other model, with the largest staging that it may
  /// need where weights are kept in another form.
  [[nodiscard]] JobPlan with(const std::function<void(JobConfig&)>& change) const;
  /// The plan of this job on other machines, with the largest staging that it may need.
  [[nodiscard]] JobPlan with(Machine machine) const;

  [[nodiscard]] const JobConfig& config() const { return blueprint->config; }
  /// Bytes at the peak of the rank that needs most.
  [[nodiscard]] std::int64_t largest_peak() const;
  /// The parts of the ranks' memory that must fit Machine::growth_limits: on GPUs those in their memory.
  [[nodiscard]] std::vector<RankMemory> limited_parts() const;
  /// Bytes that each rank sends in a step, with the experts' shares of choices; without any all get as many.
  [[nodiscard]] std::vector<StepTraffic> step_traffic(const ExpertShares& expert_shares = {}) const;
  [[nodiscard]] bool computes_on_gpus() const { return machine.device.kind == DeviceKind::kCuda; }

  std::shared_ptr<const Blueprint> blueprint;
  ShardPlan shards;  ///< refers to *blueprint
  Machine machine;
  std::optional<HeldStep> resumed;  ///< step that the job goes on from
  Staging staging;
  std::optional<LoadOutline> load;  ///< nothing on other ranks than 0, and where weights are drawn
  std::vector<RankMemory> ranks;    ///< memory of each rank
  SavePlan saves;
  bool is_fitted = false;  ///< whether optimizer.fit has chosen the mode of the optimizer for this machine
  bool has_chosen_replicas = false;  ///< whether parallel.replicas was left to the plan
  /// Bytes that a set of ranks sends for embedding and head in a step, gathered and sharded.
  struct VocabularyBytes {
    std::int64_t gathered = 0, sharded = 0;
  };
  /// Set if parallel.vocabulary was left to the plan, which took the sharded one.
  std::optional<VocabularyBytes> chosen_vocabulary{};
  std::string lack;  ///< reason why not even the smallest mode fits, which the plan then has, or ""

 private:
  /// What the job's files say, which plans of other settings have in common.
  struct FoundInFiles {
    StoredTensors storable;           ///< tensors that frozen weights could keep as published
    std::int64_t teacher_tokens = 0;  ///< most tokens of a teacher's distribution
  };
  JobPlan(std::shared_ptr<const Blueprint> blueprint, std::shared_ptr<const FoundInFiles> found,
          Machine machine, std::optional<Staging> staging = std::nullopt);
  static JobPlan fit(const Blueprint& written, const JobConfig& config,
                     const std::shared_ptr<const FoundInFiles>& found, const Machine& machine);
  /// Plan of the job in `written` with these settings, with the largest staging that it may need.
  static JobPlan outline(const std::shared_ptr<const Blueprint>& written, const JobConfig& config,
                         const std::shared_ptr<const FoundInFiles>& found, const Machine& machine);
  /// outline() with the most copies of the model that fit.
  static JobPlan with_most_replicas(const std::shared_ptr<const Blueprint>& written, JobConfig config,
                                    const std::shared_ptr<const FoundInFiles>& found, const Machine& machine);
  enum class Fit : std::uint8_t {
    kNone,      ///< a rank certainly needs more than it may take
    kTight,     ///< what is certain fits
    kRoomLeft,  ///< a tenth of every rank's memory stays free
  };
  /// How well the ranks' memory suffices; requires count_memory().
  [[nodiscard]] Fit fit_in_memory() const;
  [[nodiscard]] bool fits() const;
  void find_staging(Communicator& comm);
  [[nodiscard]] bool may_keep_frozen() const;
  [[nodiscard]] JobPlan with_chosen_frozen() const;
  [[nodiscard]] JobPlan with_chosen_vocabulary();
  /// Takes over what is known of a plan of the same job, of which this one has a changed setting.
  void take_facts(const JobPlan& other);
  void read_headers();
  JobPlan& count_memory();
  /// with(), whose memory is not counted yet.
  [[nodiscard]] JobPlan changed(const std::function<void(JobConfig&)>& change) const;

  std::shared_ptr<const FoundInFiles> found_;
};

/// Plan of a job for a command, in this process alone: with the step that a run would go on from here, on the machines
/// that the command is told of. Warns of newer steps that are not whole. Errors as Blueprint, JobPlan::make() and
/// find_resume_point().
[[nodiscard]] JobPlan plan_of_command(const JobConfig& config, const MachineArguments& machine);

/// Whether the job leaves state, master and gradients of its optimizer to be chosen.
[[nodiscard]] bool chooses_mode(const JobConfig& config);

/// Bytes of a growth limit that plans may use; the rest is left for memory that no plan counts.
[[nodiscard]] inline std::int64_t usable_bytes(std::int64_t growth_limit) {
  return growth_limit - growth_limit / 10;
}

/// Whether the job leaves the number of copies of the model to the plan.
[[nodiscard]] inline bool chooses_replicas(const JobConfig& config) { return config.parallel.replicas == 0; }

/// Line about the number of copies of the model that the plan has chosen.
[[nodiscard]] std::string replicas_text(const JobPlan& plan);

/// Line about how the plan has chosen to share the vocabulary.
[[nodiscard]] std::string vocabulary_text(const JobPlan& plan);

/// Text of a mode: "adamw, state int8, master 24bit, gradients release".
[[nodiscard]] std::string mode_text(const OptimizerMode& mode);
/// Line about the mode and the format of frozen weights that optimizer.fit has chosen.
[[nodiscard]] std::string choice_text(const JobPlan& plan);

}  // namespace sluice
