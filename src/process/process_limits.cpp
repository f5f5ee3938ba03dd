#include "process/process_limits.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace sluice {
namespace {

// Bytes measured with Debian 12's LibTorch, OpenBLAS and Open MPI, plus a tenth: VmData of a rank on one
// thread before it has a model, the addition of each further thread (OpenBLAS's buffer, stack, heap), and
// VmSize beside VmData (code).
constexpr std::int64_t kLibraryData = 450 * kMiB, kThreadData = 160 * kMiB, kLibraryCode = 570 * kMiB;

std::int64_t bytes_of(rlim_t limit) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return limit == RLIM_INFINITY || limit > static_cast<rlim_t>(kMost) ? kMost
                                                                      : static_cast<std::int64_t>(limit);
}

void require(std::int64_t limit, std::int64_t needed, const char* what, const char* option, int threads) {
  if (limit >= needed) return;
  fail({ExitCode::kTooLittle, "job.process_limit"},
       "this process may have {} of {} ({}), and the libraries that compute take {} with {} thread{} before "
       "any weight is loaded: {} too little. Raise the limit, or lower parallel.threads",
       format_bytes(limit), what, option, format_bytes(needed), threads, threads == 1 ? "" : "s",
       format_bytes(needed - limit));
}

/// Number at the beginning of a text, or 0.
int leading_number(const char* text) { return static_cast<int>(std::strtol(text, nullptr, 10)); }

/// Number of cores that a process may run on; process 0 is this one.
int cores_of(pid_t process) {
  cpu_set_t cores;
  return sched_getaffinity(process, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

void require_descriptors() {
  constexpr rlim_t kLeast = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < kLeast)
    fail({ExitCode::kTooLittle, "job.process_limit"},
         "this process may open {} files at a time (ulimit -n), and MPI and the job need at least {}. Raise "
         "the limit",
         limit.rlim_max, kLeast);
}

ProcessLimits process_limits() {
  rlimit address_space{}, data{};
  getrlimit(RLIMIT_AS, &address_space);
  getrlimit(RLIMIT_DATA, &data);
  return {bytes_of(address_space.rlim_cur), bytes_of(data.rlim_cur)};
}

void require_room_for_libraries(const ProcessLimits& limits, int threads) {
  const std::int64_t data = kLibraryData + (threads - 1) * kThreadData;
  require(limits.data_bytes, data, "data", "ulimit -d, prlimit --data", threads);
  require(limits.address_space_bytes, data + kLibraryCode, "address space", "ulimit -v, prlimit --as",
          threads);
}

std::int64_t left_of_limits(const ProcessLimits& limits) {
  // Fields in pages: all, resident, shared, code, 0, and data with stack.
  std::int64_t all = 0, resident = 0, shared = 0, code = 0, none = 0, data = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared >> code >> none >> data;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto left = [page](std::int64_t limit, std::int64_t pages) {
    return limit == std::numeric_limits<std::int64_t>::max()
               ? limit
               : std::max<std::int64_t>(0, limit - pages * page);
  };
  return std::min(left(limits.address_space_bytes, all), left(limits.data_bytes, data));
}

int usable_cores() { return cores_of(0); }

int launcher_cores() { return cores_of(getppid()); }

int threads_per_rank(std::int64_t asked, int cores, int sharing_ranks, int most) {
  if (asked > 0) return static_cast<int>(asked);
  return std::min(most, std::max(1, cores / sharing_ranks));
}

int most_threads() {
  // A list has a number for each nested level, of which the first is ours.
  const char* const text = std::getenv("OMP_NUM_THREADS");
  const int threads = text == nullptr ? 0 : leading_number(text);
  return threads > 0 ? threads : std::numeric_limits<int>::max();
}

bool asks_for_shared_cores(std::int64_t asked, int cores, int online_cores, int local_ranks) {
  const bool has_its_own = cores < online_cores && cores * local_ranks <= online_cores;
  return asked * (has_its_own ? 1 : local_ranks) > cores;
}

int announced_local_ranks() {
  // srun's variable is a list for all nodes such as "3(x2),1", whose first number is the largest.
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"})
    if (const char* text = std::getenv(name)) return std::max(1, leading_number(text));
  return 1;
}

}  // namespace sluice
