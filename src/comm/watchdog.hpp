// A limit on calls that can only block: MPI's start, split, free and finalize.
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/wait.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice {

/// From now on the process ends with `code` after at most `seconds`, whatever its threads do. For the last
/// words of a process: a write to a full pipe or a call into a broken library may never return.
void exit_within(unsigned seconds, ExitCode code) noexcept;

/// One thread that ends the process with kInternal when a guarded call takes longer than its limit; long
/// before, it says that it waits. Make it early: its thread belongs to the memory a process has before it
/// does anything.
class Watchdog {
 public:
  /// Speaks of a call first after `first_notice_seconds`.
  explicit Watchdog(double first_notice_seconds = kFirstNoticeSeconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Names this rank in the message.
  void set_rank(int rank);

  /// Watches from its making to its end. One at a time.
  class Guard {
   public:
    Guard(Watchdog& watchdog, std::string call, double limit_seconds);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  void run();
  void notice();
  [[noreturn]] void explain_and_exit() noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool armed_ = false;
  Deadline deadline_{"", 0};
  double first_notice_;
  Stopwatch waited_;        ///< since the guarded call began
  double next_notice_ = 0;  ///< of that time, s
  std::string rank_text_;
  std::thread thread_;
};

}  // namespace sluice
