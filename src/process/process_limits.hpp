// Limits of this process: files and memory by what a shell, or whatever started it, sets (ulimit, prlimit), and
// cores, with the number of a rank's compute threads and whether they may keep their cores while idle.
#pragma once

#include <cstdint>
#include <limits>

namespace sluice {

/// Error(kTooLittle) if this process may open fewer files than MPI and the job need, with the soft limit
/// raised to the hard one.
void require_descriptors();

/// Limits on a process's address space and data in bytes; the largest number without a limit.
struct ProcessLimits {
  std::int64_t address_space_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t data_bytes = std::numeric_limits<std::int64_t>::max();
};
[[nodiscard]] ProcessLimits process_limits();

/// Error(kTooLittle) if the limits are too small for the libraries that compute, on `threads` threads: some
/// libraries try for ever to get their first memory, so this must be known before they are loaded.
void require_room_for_libraries(const ProcessLimits& limits, int threads);

/// Bytes that the limits leave to this process.
[[nodiscard]] std::int64_t left_of_limits(const ProcessLimits& limits);

/// Number of cores that this process may run on: all of the machine, or those to which the launcher has bound
/// it.
[[nodiscard]] int usable_cores();

/// Number of cores that the parent process may run on, such as mpirun, which is not bound itself.
[[nodiscard]] int launcher_cores();

/// `asked` (parallel.threads), or if that is 0 this rank's part of its `cores`, which it shares with as many
/// as `sharing_ranks` ranks, itself included: at least 1, and not more than `most`.
[[nodiscard]] int threads_per_rank(std::int64_t asked, int cores, int sharing_ranks, int most);

/// Largest number of threads: OMP_NUM_THREADS, by which launchers and users limit a program; the largest int
/// without it.
[[nodiscard]] int most_threads();

/// Whether `asked` threads (parallel.threads) of each of a node's ranks are more than one to a core. 0 never
/// asks for that. Known before MPI starts, so partly guessed: ranks are taken to have `cores` each to
/// themselves if the machine's `online_cores` are enough for it.
[[nodiscard]] bool asks_for_shared_cores(std::int64_t asked, int cores, int online_cores, int local_ranks);

/// Number of ranks on this node according to the launcher (Open MPI's mpirun or Slurm's srun); else 1.
[[nodiscard]] int announced_local_ranks();

}  // namespace sluice
