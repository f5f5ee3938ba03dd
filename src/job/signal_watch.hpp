// What signals do to a job: the first one asks it to save and end, if it can; any other ends it, with a line in
// status.json.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice {

/// From its making on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, but for those that are ignored, are taken
/// by a thread of its own, which calls the callback and then lets the signal act as by default. They are
/// blocked for the thread that makes it, for all that are started later and for a program that the process
/// becomes; so make one before that, where libraries of the program start threads while they are loaded, and
/// another one in it. A broken pipe behind stdout no longer ends the process: who reads the lines of a job
/// may go before it does.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Called on the watch's thread, with the signal's number. Only as long as the returned object lives, whose
  /// destructor waits for a call under way.
  class SignalCallback {
   public:
    SignalCallback(SignalWatch& watch, std::function<void(int)> say);
    ~SignalCallback();
    SignalCallback(const SignalCallback&) = delete;
    SignalCallback& operator=(const SignalCallback&) = delete;

   private:
    SignalWatch& watch_;
  };

  /// While it lives, the first of SIGTERM, SIGINT and SIGUSR1 is only noted, and told to the callback: the job finishes its
  /// step, saves and ends. The next one acts as ever.
  class StopRequest {
   public:
    explicit StopRequest(SignalWatch& watch);
    ~StopRequest();
    StopRequest(const StopRequest&) = delete;
    StopRequest& operator=(const StopRequest&) = delete;

    /// The signal that arrived at this rank; 0: none.
    [[nodiscard]] int number() const { return watch_.requested_; }

   private:
    SignalWatch& watch_;
  };

 private:
  void run();
  [[nodiscard]] bool take_as_request(int number);

  const sigset_t signals_;
  sigset_t mask_before_;
  std::mutex mutex_;
  std::function<void(int)> say_;  ///< guarded by mutex_
  bool can_stop_ = false;         ///< guarded by mutex_
  std::atomic<int> requested_ = 0;
  std::thread thread_;
};

/// "SIGTERM"
[[nodiscard]] const char* signal_name(int number);

}  // namespace sluice
