// Resume point of a training job that was started again.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "job/prepare/blueprint.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Collective over `comm`. The checkpoint that a job resumes from, among those on `disks`; nothing if it begins anew:
/// it does not train, nothing is saved, or checkpoint.resume or job.overwrite say so. `on_broken` is told on every rank
/// of each newer checkpoint that is not whole. Error(kBadConfig) if the checkpoint that checkpoint.resume names is not
/// there, or if the job differs from the saved one in a key that training cannot go on with; Error(kBadData) as
/// newest_step().
[[nodiscard]] std::optional<HeldStep> find_resume_point(Communicator& comm, const RankDisks& disks,
                                                        const JobConfig& config, const TellBroken& on_broken);

/// Error(kBadConfig) if the checkpoint was saved for a model with another structure than the job's.
void require_same_model(const FoundStep& found, const Blueprint& blueprint);

/// Text about a resume point: "from step 20, saved TIME by 3 ranks: PATH", and a line for each key that differs since.
[[nodiscard]] std::string resume_text(const JobConfig& config, const FoundStep& found);

/// Identity of token files.
struct DataIdentity {
  std::int64_t sequences = 0;
  std::string digest;  ///< digest of the files, see SourceFiles::sample_digest()
  std::string whole;   ///< digest of all tokens, see SourceFiles::whole_digest(); "": unknown
};
/// Error(kBadData) if the checkpoint was saved by a training on other tokens.
void require_same_data(const FoundStep& found, const DataSettings& settings, const DataIdentity& data);

/// Error if the checkpoint was saved by a training with other frozen weights than those with `digest`:
/// kBadConfig if model.frozen_format changes them, else kBadData.
void require_same_base(const FoundStep& found, const ModelSettings& model, const std::string& digest);

/// Whether the run directory's copy of a job is of this training, which had ended before its first checkpoint and
/// begins anew.
[[nodiscard]] bool begins_run_again(const JobConfig& config);

/// Whether the run directory's copy of a job equals this job in every key.
[[nodiscard]] bool is_job_of_run(const JobConfig& config);

/// Whether there are checkpoints from which the job could resume, by their names alone.
[[nodiscard]] bool has_saved_steps(const JobConfig& config);

/// The job with the optimizer's mode that the step it resumes from, `found`, was saved in, if the job leaves
/// the mode to be chosen: state of another would be another training.
[[nodiscard]] JobConfig with_saved_mode(JobConfig config, const std::optional<FoundStep>& found);

/// A key whose value differs between two jobs.
struct ChangedKey {
  std::string key;
  std::string before;
  std::string now;
  bool is_allowed = true;  ///< whether training can go on with the new value
};
/// Changed keys in schema order; keys that `before` does not have are ignored, and with optimizer.fit =
/// "auto" those that it chooses.
[[nodiscard]] std::vector<ChangedKey> changed_keys(std::span<const ConfigEntry> before, const JobConfig& now);

}  // namespace sluice
