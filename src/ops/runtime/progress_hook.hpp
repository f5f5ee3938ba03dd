// Long computations poll for progress, so that messages in flight advance while a rank computes: without a
// progress thread, MPI moves data only inside its calls.
#pragma once

#include "base/clock.hpp"

#include <functional>

namespace sluice::ops {

/// While it lives, long computations on its thread call `turn` now and then. `turn` must not compute for long
/// itself. One hook at a time per thread.
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

/// Calls this thread's ProgressHook, if there is one and it was not called lately. Long computations call
/// this about every 0.1 ms.
void poll_progress();

}  // namespace sluice::ops
