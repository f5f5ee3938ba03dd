// When several ranks fail together, one of them is elected to report.
#pragma once

#include "comm/failure/node_flags.hpp"

#include <mpi.h>

namespace sluice {

/// Election of the lowest failing rank: each failing rank waits for a time that grows with its rank, and does
/// not report if another rank of its machine has reported meanwhile. On machines without rank 0 it waits
/// longer, because a report on another machine is known there only by the launcher's ending them. Uses shared
/// memory, because a failed rank must not call MPI again: MPI might still move bytes from or to freed
/// buffers.
class FailureReporterElection {
 public:
  /// Collective over `node`, the ranks of this machine; `rank` is this rank's number in the job. Without
  /// shared memory several ranks may report, one after the other.
  FailureReporterElection(MPI_Comm node, int rank);
  ~FailureReporterElection();
  FailureReporterElection(const FailureReporterElection&) = delete;
  FailureReporterElection& operator=(const FailureReporterElection&) = delete;

  /// True if this rank is to report. Takes up to four seconds, two more on a machine without rank 0, and on
  /// the reporting rank up to eight more, while the rank that record() chose writes.
  [[nodiscard]] bool take() const noexcept;

  /// True for the first rank of the machine that asks: its failure is the cause of the job's end.
  [[nodiscard]] bool record() const noexcept;
  /// Tells that the rank which record() chose has written its failure down.
  void has_recorded() const noexcept;

  /// The flags shared on this machine; null without shared memory.
  [[nodiscard]] NodeFlags* flags() const { return flags_; }

 private:
  void await_record() const noexcept;

  int rank_;
  bool is_with_first_ = true;   ///< whether rank 0 is on this machine
  NodeFlags* flags_ = nullptr;  ///< flags shared by the ranks of the machine; null without shared memory
};

}  // namespace sluice
