// Keeps a ring of slots filled with consecutive reads, on threads of its own, so that the disk is never idle
// while chunks are sent.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

class ReadAhead {
 public:
  /// Does read number `read` into ring slot `slot`; called on the threads.
  using Fill = std::function<void(std::size_t read, std::size_t slot)>;

  /// Reads [0, reads) in order; read i goes to slot i % slots, once read i - slots has been released.
  /// Error(kInternal) if the system grants fewer threads.
  ReadAhead(std::size_t reads, std::size_t slots, int threads, Fill fill);
  /// Waits for the reads in flight, which write to slots that must stay until then. If one is stuck in the
  /// kernel the process exits (kIo): nothing else could end this wait.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Whether a read is complete. Rethrows an error of the thread that did it.
  [[nodiscard]] bool is_ready(std::size_t read);
  /// Frees the slot of the oldest read that is not released yet.
  void release();

 private:
  void start_thread();
  void end_threads();
  void run();
  void read_all();
  /// The next read to do; the number of reads when all are taken.
  [[nodiscard]] std::size_t claim();

  const std::size_t reads_;
  const std::size_t slots_;
  const Fill fill_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable slot_freed_;
  std::condition_variable thread_ended_;
  std::vector<bool> ready_;  ///< one per slot
  std::size_t claimed_ = 0;
  std::size_t released_ = 0;
  int running_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
