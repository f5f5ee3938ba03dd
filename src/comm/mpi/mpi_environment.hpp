// MPI from start to end, once per process.
#pragma once

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "comm/outcome.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sluice {

class FailureReporterElection;
class Watchdog;

/// Starts MPI (funneled: all MPI calls come from this thread) and ends it. Works under mpirun, srun, and
/// alone as one rank. Collective over all processes of the job in constructor, finalize() and make_world().
/// These calls can only block, so if a rank does not come within the limit, the process ends with kInternal
/// and a message.
class MpiEnvironment {
 public:
  explicit MpiEnvironment(double limit_seconds = 600);
  /// Calls finalize(), and logs failures. Skipped while an exception unwinds, because finalizing waits for
  /// ranks that wait for this one; whoever catches the exception ends the job with abort().
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  /// Communicator over all ranks; lives as long as this object.
  [[nodiscard]] Communicator& world() { return *world_; }

  /// Another communicator over all ranks; single messages have at most `message_limit_bytes` bytes. It must
  /// end before this object does.
  [[nodiscard]] std::unique_ptr<Communicator> make_world(std::int64_t message_limit_bytes);

  /// Number of this rank among the ranks of its machine, and their count.
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int local_size() const { return local_size_; }

  /// Number of ranks of this machine, this one included, that may run on a core of this rank.
  [[nodiscard]] int sharing_ranks() const { return sharing_ranks_; }

  /// Whether this rank may read the memory of another one of its machine, as Open MPI does for large messages
  /// (comm/mpi/single_copy.hpp); true if it is alone there.
  [[nodiscard]] bool reads_neighbours() const { return reads_neighbours_; }

  /// When several ranks fail together, the lowest one reports: true on that rank, after up to 14 seconds, and
  /// not before the rank that claimed the cause has written it down. The other ranks only wait for its
  /// abort().
  [[nodiscard]] bool elect_failure_reporter() const noexcept;

  /// True for the first rank of this machine that asks: its failure is the cause of the job's end, and goes
  /// into status.json.
  [[nodiscard]] bool claim_cause() const noexcept;
  /// Tells that the cause which this rank claimed is in status.json.
  void cause_is_written() const noexcept;
  /// Whether a rank of this machine has claimed the cause. May be called from any thread.
  [[nodiscard]] bool has_cause() const noexcept;
  /// Text about a rank of this machine that has crashed, "rank 1 crashed with signal 11", or "". May be
  /// called from any thread.
  [[nodiscard]] std::string crash_text() const;
  /// Sets the function that gets the outcome when this rank computes beyond its limit and the watchdog's
  /// thread ends it. That thread calls `last_words`, which need not return.
  void on_stall(std::function<void(const Outcome&)> last_words);

  /// Ends MPI, which must not be used afterwards; does nothing the second time. `limit_seconds` replaces the
  /// limit of the constructor.
  void finalize(double limit_seconds);
  void finalize() { finalize(limit_seconds_); }

  /// Ends every process of the job; this process's status is `code`. Never returns, and ends within seconds
  /// whatever state MPI or stderr is in. Works before, during and after the life of an environment.
  [[noreturn]] static void abort(ExitCode code) noexcept;

  /// Name and version of the MPI that the process is linked to, "Open MPI v4.1.4". Needs no environment.
  [[nodiscard]] static std::string library_version();

 private:
  void find_local_ranks();

  double limit_seconds_;
  int exceptions_at_start_;
  std::shared_ptr<Watchdog> watchdog_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<const FailureReporterElection> failure_reporter_;
  int local_rank_ = 0;
  int local_size_ = 1;
  int sharing_ranks_ = 1;
  bool reads_neighbours_ = true;
  bool finalized_ = false;
};

}  // namespace sluice
