// Long computations give others a turn, so that messages under way go on while a rank computes: without a
// thread of its own, MPI moves nothing unless it is called.
#pragma once

#include "base/clock.hpp"

#include <functional>

namespace sluice::ops {

/// While it lives, long computations of the thread that made it call `turn` now and then. `turn` must not
/// compute anything long itself. One at a time on each thread.
class Meanwhile {
 public:
  explicit Meanwhile(std::function<void()> turn);
  ~Meanwhile();
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  friend void give_turn();
  std::function<void()> turn_;
  SteadyClock::time_point last_ = SteadyClock::now();
};

/// For the loops of long computations, about every 0.1 ms: calls what this thread's Meanwhile holds, if it
/// has one and the last turn is some time ago.
void give_turn();

}  // namespace sluice::ops
