// Of ranks that fail together, one explains.
#pragma once

#include <mpi.h>

#include <atomic>

namespace sluice {

/// Lets the lowest of the ranks that fail together speak: each waits its turn, and whoever sees meanwhile
/// that another rank of its machine has spoken stays silent. Through shared memory: a rank that has failed
/// must not call MPI again, which might still move bytes from or to buffers that are gone.
class FailureReporterElection {
 public:
  /// Collective over `node`, the ranks of this machine; `rank` is this one's place among all of the job.
  /// Where no shared memory can be had, ranks speak in their turns and know nothing of each other.
  FailureReporterElection(MPI_Comm node, int rank);
  ~FailureReporterElection();
  FailureReporterElection(const FailureReporterElection&) = delete;
  FailureReporterElection& operator=(const FailureReporterElection&) = delete;

  /// True if this rank is to explain. Takes up to four seconds.
  [[nodiscard]] bool take() const noexcept;

 private:
  int rank_;
  std::atomic<int>* spoken_ = nullptr;  ///< shared by the ranks of the machine; null without shared memory
};

}  // namespace sluice
