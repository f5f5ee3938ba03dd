// Record of a run that waits in Slurm's queue: submitted.json in its directory.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sluice {

struct Submission {
  std::string job;   ///< Slurm's job id: "36", "36_3"
  std::string when;  ///< time of the submission, as utc_now() gives it
};

/// Writes down that the run of this directory waits for that job to begin. Error(kIo).
void note_submission(const std::filesystem::path& directory, const std::string& job);

/// The last one that was noted, if any can be read.
[[nodiscard]] std::optional<Submission> read_submission(const std::filesystem::path& directory);

/// "Submitted batch job 36", or "36;cluster" with --parsable: the number; "" if it says none.
[[nodiscard]] std::string job_in_answer(const std::string& sbatch_answer);

/// Asks squeue, which has ten seconds to answer: "queued" if it waits, or some tasks of it do; "started" if
/// it has begun; "gone" if Slurm knows no such job, or none any more; "submitted" where there is no answer.
[[nodiscard]] std::string queue_state(const std::string& job);

}  // namespace sluice
