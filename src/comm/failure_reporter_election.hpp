// When several ranks fail together, one of them is elected to report.
#pragma once

#include "comm/node_flags.hpp"

#include <mpi.h>

namespace sluice {

/// The lowest of the failing ranks reports: each waits for a time that grows with its rank, and does not
/// report if another rank of its machine has done so meanwhile; on machines without rank 0 it waits longer,
/// as all that they hear of a report on another machine is that the launcher ends them. Uses shared memory,
/// because a rank that has failed must not call MPI again: MPI might still move bytes from or to buffers that
/// are gone.
class FailureReporterElection {
 public:
  /// Collective over `node`, the ranks of this machine; `rank` is this one's place among all of the job.
  /// Without shared memory several ranks may report, one after the other.
  FailureReporterElection(MPI_Comm node, int rank);
  ~FailureReporterElection();
  FailureReporterElection(const FailureReporterElection&) = delete;
  FailureReporterElection& operator=(const FailureReporterElection&) = delete;

  /// True if this rank is to report. Takes up to four seconds, two more on a machine without rank 0, and on
  /// the rank that is to report up to eight more, while the one that record() chose writes.
  [[nodiscard]] bool take() const noexcept;

  /// True for the first rank of the machine that asks: what happened to it is the cause of the job's end.
  [[nodiscard]] bool record() const noexcept;
  /// Tells that the failure which record() chose this rank for is written down.
  void has_recorded() const noexcept;

  /// Null without shared memory.
  [[nodiscard]] NodeFlags* flags() const { return flags_; }

 private:
  void await_record() const noexcept;

  int rank_;
  bool is_with_first_ = true;   ///< whether rank 0 is on this machine
  NodeFlags* flags_ = nullptr;  ///< flags shared by the ranks of the machine; null without shared memory
};

}  // namespace sluice
