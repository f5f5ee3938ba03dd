#include "job/threads.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace sluice {

namespace {

/// Number at the beginning of a text, or 0.
int leading_number(const char* text) { return static_cast<int>(std::strtol(text, nullptr, 10)); }

/// Number of cores that a process may run on; process 0 is this one.
int cores_of(pid_t process) {
  cpu_set_t cores;
  return sched_getaffinity(process, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

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
