// Effect of signals on a job: the first one asks it to save and end, if it can; any other ends it, with a
// line in status.json.
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"

#include <signal.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

/// Signals that ask a job to save and end: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGXCPU,
/// without those that the process ignores, as SIGHUP under nohup: waited for, an ignored signal would be
/// received all the same.
[[nodiscard]] sigset_t request_signals();

/// Request signals that the process ignores.
[[nodiscard]] std::vector<int> ignored_requests();

/// Whether a signal that arrives so long after the first request is that request once more. slurmd sends
/// SIGTERM to a preempted step and so does srun; a closed terminal sends SIGHUP and so does its shell;
/// systemd sends SIGHUP right behind SIGTERM; and the kernel sends SIGXCPU each second.
[[nodiscard]] bool repeats_request(int number, int request, double seconds_since);

/// Takes request_signals() by a thread of its own, which calls the callback and then lets the signal act as
/// by default. They are blocked for the thread that makes it, for all that are started later and for a
/// program that the process becomes; so make one before that, where libraries of the program start threads
/// while they are loaded, and another one in it. A broken pipe behind stdout no longer ends the process: who
/// reads the lines of a job may go before it does.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Makes signals that end the process end it with this code, so that a launcher that ends the ranks of a
  /// job does not change the job's exit code; nothing: the default, 128 plus the signal's number. Once all
  /// training is saved, the code is kResumable.
  void set_exit_code(std::optional<ExitCode> code);

  /// Callback that the watch's thread calls with the signal's number and the code with which the process will
  /// end. Active for the lifetime of the returned object, whose destructor waits for a call in progress.
  class SignalCallback {
   public:
    SignalCallback(SignalWatch& watch, std::function<void(int, ExitCode)> say);
    ~SignalCallback();
    SignalCallback(const SignalCallback&) = delete;
    SignalCallback& operator=(const SignalCallback&) = delete;

   private:
    SignalWatch& watch_;
  };

  /// While it lives, the first signal is only noted, and told to the callback: the job finishes its step,
  /// saves and ends. The next one acts as ever, unless it repeats_request(). srun sends SIGTERM as well to
  /// the ranks that a dead one has left behind, which wait for it in vain: where no step ends within a
  /// patience after that signal, the process ends with kInternal.
  class StopRequest {
   public:
    explicit StopRequest(SignalWatch& watch);
    ~StopRequest();
    StopRequest(const StopRequest&) = delete;
    StopRequest& operator=(const StopRequest&) = delete;

    /// Number of the signal that arrived at this rank; 0: none.
    [[nodiscard]] int number() const { return watch_.requested_; }

    /// Sets the seconds that a step may take, on the watch's clock.
    void set_patience(double seconds) { watch_.patience_seconds_ = seconds; }
    /// Tells that all ranks have ended the present step: none is dead.
    void answer() { watch_.answered_ = true; }

   private:
    SignalWatch& watch_;
  };

 private:
  void run();
  [[nodiscard]] int next_signal();
  [[nodiscard]] bool take_as_request(int number);
  [[noreturn]] void end(int number);

  const sigset_t signals_;
  sigset_t mask_before_;
  std::mutex mutex_;
  std::function<void(int, ExitCode)> say_;  ///< guarded by mutex_
  bool can_stop_ = false;                   ///< guarded by mutex_
  std::optional<ExitCode> exit_code_;       ///< guarded by mutex_
  std::atomic<int> requested_ = 0;
  Stopwatch since_request_;  ///< time since the first request; used by the watch's thread
  std::atomic<double> patience_seconds_ = 0;
  std::atomic<bool> answered_ = false;
  std::thread thread_;
};

/// Name of a signal: "SIGTERM"; "signal 35" for one without a name.
[[nodiscard]] std::string signal_name(int number);

}  // namespace sluice
