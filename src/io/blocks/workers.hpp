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

/// One lock guards what the owner and its threads have in common. A thread that waits asks for work whenever
/// something has changed, and twice a second in any case. The first error ends all threads and is thrown at
/// the owner's next call.
class Workers {
 public:
  using Lock = std::unique_lock<std::mutex>;
  /// Done without the lock.
  using Task = std::function<void()>;
  /// Says, with the lock held, what a thread does next; null: nothing yet.
  using Claim = std::function<Task()>;

  static constexpr double kPatienceSeconds = 20;

  /// `what` the threads do, as in "a thread that reads the checkpoint", for messages. `patience_seconds`: how
  /// long stop() waits.
  explicit Workers(std::string what, double patience_seconds = kPatienceSeconds);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Error(kInternal) if the system grants fewer threads; those that it did grant have ended.
  void start(int threads, const Claim& claim);
  /// Waits for the tasks under way, which use memory that must stay until then; no other begins. If one is
  /// stuck in the kernel the process exits (kIo): nothing else could end this wait.
  void stop();

  [[nodiscard]] Lock lock() const { return Lock(mutex_); }
  /// Something that a claim or a wait looks at has changed.
  void notify() { changed_.notify_all(); }
  /// Throws the error of a task, if there is one. Call it with the lock held.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  /// Waits until `done` says true, which is called with the lock held; false if it does not within
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
