#include "job/exec_compute_program.hpp"

#include "base/error.hpp"
#include "io/child_process.hpp"
#include "job/job.hpp"
#include "process/process_limits.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace fs = std::filesystem;
namespace {

/// Name of the program that links LibTorch, which costs 0.6 s and 150 MB in every process: programs that
/// load, export, check and verify do without.
constexpr std::string_view kComputeProgram = "sluice-train";

/// OpenMP's threads wait for the next piece of work on their cores before they sleep: to wake one takes
/// longer than many a piece. GCC's wait for tens of milliseconds, in which they take cores from whatever else
/// runs there; ten thousand turns, a fraction of one, are as fast on a machine of one's own, where a thousand
/// cost up to a quarter of the tokens/s of virtual machines, whose idle cores wake slowly
/// (tools/bench/results/2026-11-24-waiting-threads.md). Where a job's ranks share cores they sleep at once.
/// Read when the program loads, so it cannot wait for MPI to tell how many ranks there are.
void choose_how_threads_wait(const JobConfig& config) {
  const int online_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (asks_for_shared_cores(config.parallel.threads, usable_cores(), online_cores, announced_local_ranks()))
    setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  else if (std::getenv("OMP_WAIT_POLICY") == nullptr)
    setenv("GOMP_SPINCOUNT", "10000", /*overwrite=*/0);
}

}  // namespace

std::optional<fs::path> find_compute_program(JobKind kind) {
  if (find_job(kind) != nullptr) return std::nullopt;
  fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / kComputeProgram;
  if (!fs::exists(program))
    fail(ExitCode::kBadConfig,
         "job.kind: jobs of this kind are run by {}, which is not there: it is built and installed together "
         "with sluice",
         program.string());
  return program;
}

std::vector<std::string> run_words(const JobArguments& arguments) {
  std::vector<std::string> words{"run"};
  for (const std::string& change : arguments.overrides) words.insert(words.end(), {"--set", change});
  words.insert(words.end(), {"--", arguments.file.string()});
  return words;
}

void exec_compute_program(const JobConfig& config, const std::vector<std::string>& arguments) {
  const std::optional<fs::path> program = find_compute_program(config.job.kind);
  if (!program) return;
  std::vector<std::string> words{program->string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  require_room_for_libraries(process_limits(), threads_per_rank(config.parallel.threads, usable_cores(),
                                                                announced_local_ranks(), most_threads()));
  choose_how_threads_wait(config);
  fail(ExitCode::kInternal, "{}: could not be started: {}", program->string(),
       errno_text(become_program(std::move(words))));
}

}  // namespace sluice
