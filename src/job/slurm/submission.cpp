#include "job/slurm/submission.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "comm/outcome.hpp"
#include "io/file.hpp"
#include "job/slurm/child_program.hpp"

#include <nlohmann/json.hpp>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSubmissionFile = "submitted.json";
constexpr std::string_view kNumberDigits = "0123456789";

}  // namespace

void note_submission(const fs::path& directory, const std::string& job) {
  const nlohmann::json note{{"slurm_job", job}, {"submitted", utc_now()}};
  write_text_file(directory / kSubmissionFile, note.dump(2) + "\n");
}

std::optional<Submission> read_submission(const fs::path& directory) {
  std::optional<Submission> found;
  // Most runs have no record; one that cannot be read is another program's.
  static_cast<void>(outcome_of([&] {
    const auto note = nlohmann::json::parse(read_text_file(directory / kSubmissionFile, 64 * kKiB));
    found = Submission{note.at("slurm_job"), note.at("submitted")};
  }));
  return found;
}

std::string job_in_answer(const std::string& sbatch_answer) {
  constexpr std::string_view kSaying = "Submitted batch job ";
  const std::size_t saying = sbatch_answer.find(kSaying);
  const std::size_t first = saying == std::string::npos ? 0 : saying + kSaying.size();
  return sbatch_answer.substr(first, sbatch_answer.find_first_not_of(kNumberDigits, first) - first);
}

std::string queue_state(const std::string& job) {
  constexpr double kSeconds = 10;
  const auto answer = run_program({"squeue", "--noheader", "--format=%T", "--jobs=" + job}, kSeconds);
  if (!answer) return "submitted";
  const std::string& states = answer->output;
  if (answer->status != 0) return states.find("Invalid job id") == std::string::npos ? "submitted" : "gone";
  if (states.find("PENDING") != std::string::npos || states.find("REQUEUE") != std::string::npos)
    return "queued";
  return states.find_first_not_of(" \n") == std::string::npos ? "gone" : "started";
}

}  // namespace sluice
