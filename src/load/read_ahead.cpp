#include "load/read_ahead.hpp"

#include "base/error.hpp"
#include "base/log.hpp"

#include <unistd.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace sluice {

ReadAhead::ReadAhead(std::size_t reads, std::size_t slots, int threads, Fill fill)
    : reads_(reads), slots_(slots), fill_(std::move(fill)), ready_(slots) {
  SLUICE_ASSERT(slots >= 1 && threads >= 1, "a ring of {} slots filled by {} threads", slots, threads);
  threads_.reserve(static_cast<std::size_t>(threads));
  try {
    for (int i = 0; i < threads; ++i) start_thread();
  } catch (const std::system_error& error) {
    end_threads();
    fail(ExitCode::kInternal,
         "cannot start thread {} of {} that read the checkpoint: {}. Likely cause: a limit on memory, of "
         "which "
         "each thread's stack is a part (load.memory_limit, ulimit -v), or on processes (ulimit -u, the "
         "container's)",
         threads_.size() + 1, threads, error.code().message());
  }
}

ReadAhead::~ReadAhead() { end_threads(); }

void ReadAhead::start_thread() {
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  try {
    threads_.emplace_back([this] { run(); });
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --running_;
    throw;
  }
}

void ReadAhead::end_threads() {
  constexpr std::chrono::seconds kPatience(20);
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    slot_freed_.notify_all();
    if (!thread_ended_.wait_for(lock, kPatience, [this] { return running_ == 0; })) {
      log::error("a read of the checkpoint has been stuck in the kernel for {} s", kPatience.count());
      _exit(static_cast<int>(ExitCode::kIo));
    }
  }
  for (std::thread& thread : threads_) thread.join();
}

std::size_t ReadAhead::claim() {
  std::unique_lock lock(mutex_);
  slot_freed_.wait(lock, [this] {
    return stopping_ || error_ != nullptr || claimed_ == reads_ || claimed_ < released_ + slots_;
  });
  return stopping_ || error_ != nullptr || claimed_ == reads_ ? reads_ : claimed_++;
}

void ReadAhead::run() {
  read_all();
  const std::lock_guard lock(mutex_);
  --running_;
  thread_ended_.notify_all();
}

void ReadAhead::read_all() {
  for (std::size_t read = claim(); read < reads_; read = claim()) {
    std::exception_ptr error;
    try {
      fill_(read, read % slots_);
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (error && !error_) error_ = error;
    ready_[read % slots_] = true;
  }
}

bool ReadAhead::is_ready(std::size_t read) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return read < claimed_ && ready_[read % slots_];
}

void ReadAhead::release() {
  {
    const std::lock_guard lock(mutex_);
    ready_[released_ % slots_] = false;
    ++released_;
  }
  slot_freed_.notify_all();
}

}  // namespace sluice
