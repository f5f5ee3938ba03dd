#include "launch/slurm/submission.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/outcome.hpp"
#include "io/child_program.hpp"
#include "io/file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace sluice {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Submission, slurm_job, submitted)

namespace {

namespace fs = std::filesystem;

constexpr const char* kSubmissionFile = "submitted.json";
constexpr std::string_view kNumberDigits = "0123456789";

std::int64_t number_of_option(const std::vector<std::string>& options, std::string_view name,
                              std::string_view letter, std::int64_t other) {
  const std::optional<std::string> value = option_value(options, name, letter);
  return value ? leading_number(*value).value_or(other) : other;
}

}  // namespace

std::optional<std::string> option_value(const std::vector<std::string>& options, std::string_view name,
                                        std::string_view letter) {
  std::optional<std::string> value;  // value of the option; the last one counts, as in sbatch
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string_view word = options[i];
    if (word == name || (!letter.empty() && word == letter)) {
      if (i + 1 < options.size()) value = options[++i];
    } else if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) {
      value = word.substr(name.size() + 1);
    } else if (!letter.empty() && word.starts_with(letter) && !word.starts_with("--")) {
      value = word.substr(letter.size());
    }
  }
  return value;
}

std::vector<std::int64_t> task_numbers(const std::string& array) {
  constexpr std::size_t kMost = 100'000;
  std::vector<std::int64_t> numbers;
  std::string_view rest = std::string_view(array).substr(0, array.find('%'));
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::optional<std::int64_t> first = leading_number(part);
    if (!first) break;
    const std::int64_t last = number_behind(part, "-").value_or(*first);
    const std::int64_t step = std::max<std::int64_t>(number_behind(part, ":").value_or(1), 1);
    for (std::int64_t task = *first; task <= last && numbers.size() < kMost; task += step)
      numbers.push_back(task);
  }
  if (numbers.empty())
    fail({ExitCode::kUsage, "command.usage"}, "--array: found {}, expected the numbers of tasks, such as 1-3",
         printable(array));
  return numbers;
}

std::int64_t rank_count(const std::vector<std::string>& options) {
  constexpr std::int64_t kNodes = 3, kMost = 1 << 20;
  const std::int64_t nodes = number_of_option(options, "--nodes", "-N", kNodes);
  const std::int64_t ranks = nodes * number_of_option(options, "--ntasks-per-node", "", 1);
  return std::clamp<std::int64_t>(number_of_option(options, "--ntasks", "-n", ranks), 1, kMost);
}

void note_submission(const fs::path& directory, const std::string& job) {
  const nlohmann::json note(Submission{job, utc_now()});
  write_text_file(directory / kSubmissionFile, note.dump(2) + "\n");
}

std::optional<Submission> read_submission(const fs::path& directory) {
  std::optional<Submission> found;
  // Most runs have no record; one that cannot be read is another program's.
  static_cast<void>(outcome_of([&] {
    found = nlohmann::json::parse(read_text_file(directory / kSubmissionFile, 64 * kKiB)).get<Submission>();
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
