// Submission of a job: its scripts, options of sbatch, its answer, and the record of a run that waits in Slurm's
// queue, submitted.json in its directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Text of slurm/train.sbatch, which starts ranks with srun.
[[nodiscard]] std::string_view srun_script();
/// Text of slurm/train-mpirun.sbatch, which starts ranks with mpirun.
[[nodiscard]] std::string_view mpirun_script();

/// Value of an option given as "--array=1-3", "--array", "1-3", "-a1-3" or "-a", "1-3"; nothing if it is not
/// given. `letter` may be "".
[[nodiscard]] std::optional<std::string> option_value(const std::vector<std::string>& options,
                                                      std::string_view name, std::string_view letter);

/// Task numbers in the value of --array, such as "0-15:5,20%2". Error(kUsage) if it has none.
[[nodiscard]] std::vector<std::int64_t> task_numbers(const std::string& array);

/// Number of ranks that the options ask for; without any, that of the scripts: one on each of three nodes.
[[nodiscard]] std::int64_t rank_count(const std::vector<std::string>& options);

struct Submission {
  std::string slurm_job;  ///< job id in Slurm: "36", "36_3"
  std::string submitted;  ///< time of the submission, as utc_now() gives it
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
