// Call stack of another thread of this process.
#pragma once

#include <pthread.h>

#include <string>
#include <vector>

namespace sluice {

/// Must be made early, in the thread whose stack will be asked for; takes a signal for it (SIGRTMIN + 2).
class ThreadStack {
 public:
  ThreadStack();

  /// The stack, a line per frame, innermost first; empty if the thread does not answer within a second,
  /// because it is stopped or hangs in the kernel.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  pthread_t thread_;
};

}  // namespace sluice
