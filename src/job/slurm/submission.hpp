// Record of a run that waits in Slurm's queue: submitted.json in its directory.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sluice {

struct Submission {
  std::string job;   ///< job id in Slurm: "36", "36_3"
  std::string when;  ///< time of the submission, as utc_now() gives it
};

/// Records that the run of this directory waits for a Slurm job to begin. Error(kIo).
void note_submission(const std::filesystem::path& directory, const std::string& job);

/// Last recorded submission, if it can be read.
[[nodiscard]] std::optional<Submission> read_submission(const std::filesystem::path& directory);

/// Job number in the answer of sbatch, "Submitted batch job 36", or "36;cluster" with --parsable; "" if it
/// has none.
[[nodiscard]] std::string job_in_answer(const std::string& sbatch_answer);

/// State of a job by squeue, which has ten seconds to answer: "queued" if it or some of its tasks wait;
/// "started" if it has begun; "gone" if Slurm does not know it (any more); "submitted" without an answer.
[[nodiscard]] std::string queue_state(const std::string& job);

}  // namespace sluice
