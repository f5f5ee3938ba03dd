// Threads that move blocks between memory and a disk beside the thread that owns them.
#pragma once

#include "base/clock.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {

/// Threads and a lock that guards what they share with the owner. A waiting thread asks for work whenever
/// something has changed, and at least twice a second. The first error ends all threads and is thrown by the
/// owner's next call.
class Workers {
 public:
  using Lock = std::unique_lock<std::mutex>;
  /// A piece of work, done without the lock.
  using Task = std::function<void()>;
  /// Function that returns a thread's next task, called with the lock held; null: nothing to do yet.
  using Claim = std::function<Task()>;

  static constexpr double kPatienceSeconds = 20;

  /// `what` the threads do is for messages, as in "a thread that reads the checkpoint". `patience_seconds`:
  /// how long stop() waits.
  explicit Workers(std::string what, double patience_seconds = kPatienceSeconds);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Starts threads. Error(kInternal) if the system grants fewer; those that started have ended by then.
  void start(int threads, const Claim& claim);
  /// Waits for tasks in flight, whose memory must stay valid until then; no further task begins. If one is
  /// stuck in the kernel the process exits (kIo), since nothing else could end this wait.
  void stop();

  [[nodiscard]] Lock lock() const { return Lock(mutex_); }
  /// Wakes waiting threads, because something that a claim or wait depends on has changed.
  void notify() { changed_.notify_all(); }
  /// Throws the error of a task, if there is one. The caller holds the lock.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// Waits until `done` returns true, which is called with the lock held; returns false if it does not within
  /// `limit_seconds`. Throws the error of a task.
  [[nodiscard]] bool wait(Lock& lock, const std::function<bool()>& done,
                          double limit_seconds = std::numeric_limits<double>::infinity());

 private:
  void start_thread(const Claim& claim);
  void run(const Claim& claim);

  const std::string what_;
  const double patience_seconds_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int started_ = 0, running_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
