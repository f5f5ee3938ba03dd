// Number of a rank's compute threads, and whether they may keep their cores while idle.
#pragma once

#include <cstdint>

namespace sluice {

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
