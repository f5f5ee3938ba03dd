// In place of LibTorch's: threads of the standard library. ThreadSanitizer knows what happens before what among those, and
// not among OpenMP's, whose library is not compiled with it.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace at {

inline int thread_count = 1;
inline int get_num_threads() { return thread_count; }
inline void set_num_threads(int count) { thread_count = count; }

/// f(i, i + 1) on a thread of its own for each i; rethrows what the first of them threw.
template <class F>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t /*grain*/, const F& f) {
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (std::int64_t i = begin; i < end; ++i)
    threads.emplace_back([&, i] {
      try {
        f(i, i + 1);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace at
