#include "io/blocks/workers.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

constexpr double kAskAgainSeconds = 0.5;

}  // namespace

Workers::Workers(std::string what, double patience_seconds)
    : what_(std::move(what)), patience_seconds_(patience_seconds) {}

void Workers::start(int threads, const Claim& claim) {
  SLUICE_ASSERT(threads >= 1, "{} threads that {}", threads, what_);
  try {
    for (int i = 0; i < threads; ++i) start_thread(claim);
  } catch (const std::system_error& error) {
    stop();
    fail({ExitCode::kInternal, "io.process"},
         "cannot start thread {} of {} that {}: {}. Likely cause: a limit on memory, of which each thread's "
         "stack is a part (load.memory_limit, ulimit -v), or on processes (ulimit -u, the container's)",
         started_ + 1, threads, what_, error.code().message());
  }
}

void Workers::start_thread(const Claim& claim) {
  const Lock lock(mutex_);
  threads_.emplace_back([this, claim] { run(claim); });
  ++started_;
  ++running_;
}

void Workers::run(const Claim& claim) {
  Lock lock(mutex_);
  while (!stopping_ && !error_) {
    const Task task = claim();
    if (!task) {
      changed_.wait_for(lock, Seconds(kAskAgainSeconds));
      continue;
    }
    std::exception_ptr error;
    lock.unlock();
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
  --running_;
  changed_.notify_all();
}

void Workers::stop() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, Seconds(patience_seconds_), [this] { return running_ == 0; })) {
      log::error("a thread that {} has been stuck in the kernel for {:g} s", what_, patience_seconds_);
      _exit(static_cast<int>(ExitCode::kIo));
    }
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Workers::wait(Lock& lock, const std::function<bool()>& done, double limit_seconds) {
  const Stopwatch watch;
  while (!error_ && !done()) {
    const double left = limit_seconds - watch.seconds();
    if (left <= 0) return false;
    changed_.wait_for(lock, Seconds(std::min(left, kAskAgainSeconds)));
  }
  rethrow();
  return true;
}

}  // namespace sluice
