// Long computations poll for progress, so that messages in flight advance while a rank computes: without a
// progress thread, MPI moves data only inside its calls.
#pragma once

#include "base/clock.hpp"

#include <functional>

namespace sluice::ops {

/// While it lives, long computations of the thread that made it call `turn` now and then. `turn` must not
/// compute anything long itself. One at a time on each thread.
class ProgressHook {
 public:
  explicit ProgressHook(std::function<void()> turn);
  ~ProgressHook();
  ProgressHook(const ProgressHook&) = delete;
  ProgressHook& operator=(const ProgressHook&) = delete;

 private:
  friend void poll_progress();
  std::function<void()> turn_;
  SteadyClock::time_point last_ = SteadyClock::now();
};

/// Calls this thread's ProgressHook, if it has one and the last call is some time ago. Loops of long
/// computations call it about every 0.1 ms.
void poll_progress();

}  // namespace sluice::ops
