// The directory of one run: resolved job file, status, metrics, logs. Written by rank 0, and by a rank that
// fails.
#pragma once

#include "base/clock.hpp"
#include "comm/communicator.hpp"
#include "comm/outcome.hpp"
#include "config/job_config.hpp"
#include "io/file.hpp"
#include "process/run_lock.hpp"
#include "process/status_file.hpp"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace sluice {

/// Progress of a job as in status.json, under the name of what is counted: "step" of "steps".
struct RunProgress {
  std::string_view unit = kProgressUnits[0];  ///< unit of progress, one of kProgressUnits
  std::int64_t done = 0;                      ///< number of units done; 0: none yet
  std::int64_t total = 0;
  double loss = std::numeric_limits<double>::quiet_NaN();               ///< loss in nats; NaN: none
  double tokens_per_second = std::numeric_limits<double>::quiet_NaN();  ///< tokens per second; NaN: not known
  /// Estimated seconds until the end of the job; -1: not known yet.
  double seconds_left = -1;
};

/// Name of the file in a run's directory with the plan that the run goes by, as `sluice plan --json` prints it.
inline constexpr const char* kPlanFile = "plan.json";

class RunDirectory {
 public:
  /// Opens the run directory; without job.output nothing is written anywhere. Rank 0 creates the directory,
  /// takes its lock and writes job.toml and status.json. Error(kBadConfig) if another job holds the lock
  /// (process/run_lock.hpp), or if an earlier run left results that this job neither resumes
  /// (job/plan/resume_point.hpp) nor may overwrite; Error(kIo) if the system refuses. Results of an earlier
  /// run stay until new_file(): this job may yet find that it cannot run.
  RunDirectory(const JobConfig& config, const Communicator& comm);
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Replaces the job.toml of the constructor's `config` by the job with its choices made. Error(kIo). Does
  /// nothing on other ranks than 0.
  void set_job(const JobConfig& config) const;
  /// Writes `text`, the plan that the job goes by, as plan.json. Error(kIo). Does nothing on other ranks than 0.
  void set_plan(const std::string& text) const;

  /// Every rank begins its log, logs/rank-NNNNN.log, once rank 0 has constructed this. With job.overwrite it
  /// replaces that of an earlier run, and rank 0 removes the logs of ranks that this job does not have; else
  /// it is appended to. A rank that cannot write there goes on without a log, with a warning.
  void begin_log() const;

  /// A file of this run: relative paths are inside the directory.
  [[nodiscard]] std::filesystem::path file(const std::filesystem::path& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Path of a result that rank 0 creates next; removes what an earlier run left there, if job.overwrite
  /// allows it.
  [[nodiscard]] std::filesystem::path new_file(const std::filesystem::path& name) const;

  /// Next free name of a file in segments: metrics.h5, metrics.0001.h5, and so on. With job.overwrite the
  /// first name, after those of an earlier run were removed.
  [[nodiscard]] std::filesystem::path new_segment(const std::filesystem::path& name) const;

  /// Number of this start of the run, counting all starts that have left a status or a checkpoint; known on
  /// rank 0; 0 on other ranks and without job.output.
  [[nodiscard]] std::int64_t attempt() const { return attempt_; }

  /// Writes what the job does now to the status. If that fails a warning says so, here and below.
  void set_status(const std::string& state) noexcept;
  /// Sets the progress, which is written after the first step of this run, then every few seconds, and with
  /// other changes.
  void set_progress(const RunProgress& progress) noexcept;
  /// Repeats the loss and speed of an earlier run in this directory that has finished the job.
  void set_done_before(RunProgress progress) noexcept;
  /// Whether an earlier run in this directory has finished the job; on rank 0, false on other ranks.
  [[nodiscard]] bool was_done_before() const { return was_done_before_; }
  /// Sets the last step that was saved, and the time.
  void set_saved(std::int64_t step, const std::string& when = utc_now()) noexcept;
  /// Sets the checkpoint with the lowest held-out loss; step 0: none. Written with other changes.
  void set_best(std::int64_t step, double held_out_loss) noexcept;
  /// Records the end of the job, by kDone or kResumable. `note`: text for the user about an end by kDone, or
  /// "".
  void set_done(ExitCode ending = ExitCode::kDone, const std::string& note = "") noexcept;
  void set_failed(const Outcome& failure) noexcept;
  /// Records that a signal ends the job with this code, unless a rank's failure is written down already,
  /// after which the launcher ends the others; `cause` if it is known. From any thread, as all of these. Not
  /// proof against a crash of the machine, as the other endings are: what sent the signal may not leave the
  /// time.
  void set_ended_by(int signal_number, ExitCode code, const std::string& cause = "") noexcept;

  /// Fails as the constructor would, as far as that can be told without leaving a trace; for sluice check.
  static void check(const JobConfig& config);

 private:
  void create(const JobConfig& config);
  void beat(const std::stop_token& stop);
  [[nodiscard]] bool tells_of_failure(int code_limit) const noexcept;
  void write_status(Durability durability = Durability::kDisk) const;
  void try_write_status(Durability durability = Durability::kDisk) noexcept;

  std::mutex mutex_;  ///< guards the members that the status is made of
  std::filesystem::path path_;
  int rank_;
  bool is_root_;
  bool overwrites_;
  int world_size_;
  std::string started_;
  std::string kind_;     ///< kind of the job
  RunProgress earlier_;  ///< last progress of an earlier run in this directory, on rank 0 alone
  bool was_done_before_ = false;
  std::int64_t attempt_ = 0;  ///< number of this start of the run, known on rank 0
  std::string state_ = "starting";
  RunProgress progress_;
  std::int64_t saved_step_ = 0;  ///< last step that was saved; 0: none
  std::string saved_;            ///< time of the last checkpoint
  std::int64_t best_step_ = 0;   ///< step with the lowest held-out loss; 0: none
  double best_loss_ = 0;         ///< lowest held-out loss
  /// Outcome of the job, or of a signal that ends it unless it still saves its state.
  std::optional<Outcome> end_;
  Stopwatch since_status_;
  RunLock lock_;
  std::condition_variable_any wake_;
  std::jthread heartbeat_;  ///< thread that renews the status of a run without a lock
};

}  // namespace sluice
