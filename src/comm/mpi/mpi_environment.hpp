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
/// alone as one rank. Collective over all processes of the job, in construction, finalize() and make_world().
/// Ranks that never come end the process with kInternal and a message when the limit passes, because these
/// calls can only block.
class MpiEnvironment {
 public:
  explicit MpiEnvironment(double limit_seconds = 600);
  /// finalize(), with failures logged. Skipped while an exception unwinds: finalizing waits for ranks that
  /// wait for this one; whoever catches the exception ends the job with abort().
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  /// All ranks. Lives as long as this.
  [[nodiscard]] Communicator& world() { return *world_; }

  /// Another communicator over all ranks; single messages hold at most `message_limit_bytes`. It must end
  /// before this does.
  [[nodiscard]] std::unique_ptr<Communicator> make_world(std::int64_t message_limit_bytes);

  /// This rank among the ranks of its machine, and their number.
  [[nodiscard]] int local_rank() const { return local_rank_; }
  [[nodiscard]] int local_size() const { return local_size_; }

  /// Ranks of this machine, this one included, that may run on a core that this one may run on.
  [[nodiscard]] int sharing_ranks() const { return sharing_ranks_; }

  /// When several ranks fail together the lowest one reports: true on that rank, after up to 14 seconds, and
  /// not before the rank that claimed the cause has written it down. The others then only wait for its
  /// abort().
  [[nodiscard]] bool elect_failure_reporter() const noexcept;

  /// True for the first rank of this machine that asks: what it knows is the cause of the job's end, and goes
  /// into status.json.
  [[nodiscard]] bool claim_cause() const noexcept;
  /// The cause that this rank claimed is in status.json.
  void cause_is_written() const noexcept;
  /// Whether a rank of this machine has asked. From any thread.
  [[nodiscard]] bool has_cause() const noexcept;
  /// "rank 1 crashed with signal 11" if one of this machine has, else "". From any thread.
  [[nodiscard]] std::string crash_text() const;
  /// Sets what is done with the cause when this rank computes beyond its limit, so that the watchdog's thread
  /// ends it. That thread calls `last_words`, which need not return.
  void on_stall(std::function<void(const Outcome&)> last_words);

  /// Ends MPI. Nothing of MPI may be used afterwards; does nothing the second time. `limit_seconds` replaces
  /// the limit of construction.
  void finalize(double limit_seconds);
  void finalize() { finalize(limit_seconds_); }

  /// Ends every process of the job; this one's status is `code`. Returns never, and within seconds whatever
  /// state MPI or stderr are in. Works before, during and after the life of an environment.
  [[noreturn]] static void abort(ExitCode code) noexcept;

  /// "Open MPI v4.1.4": what the process is linked to. Needs no environment.
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
  bool finalized_ = false;
};

}  // namespace sluice
