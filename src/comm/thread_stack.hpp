// The call stack of another thread of this process.
#pragma once

#include <pthread.h>

#include <string>
#include <vector>

namespace sluice {

/// Make one early, in the thread that will be asked about: a signal of its own (SIGRTMIN + 2) is taken for
/// it.
class ThreadStack {
 public:
  ThreadStack();

  /// A line for each frame, innermost first; none if the thread does not answer within a second, as one that
  /// is stopped or hangs in the kernel.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  pthread_t thread_;
};

}  // namespace sluice
