// Watchdog: a thread that watches the working thread. It limits calls that can only block (MPI's start,
// split, free and finalize) and computation without end, and reports this rank's position when a limit passes
// here or elsewhere on the machine.
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/failure/node_flags.hpp"
#include "comm/failure/thread_stack.hpp"
#include "comm/outcome.hpp"
#include "comm/wait.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace sluice {

/// Ends the process with `code` after at most `seconds`, whatever its threads do, because a write to a full
/// pipe or a call into a broken library may never return.
void exit_within(unsigned seconds, ExitCode code) noexcept;
/// Cancels exit_within(): the process continues.
void cancel_exit() noexcept;

/// The watchdog of a process, made by the working thread. Ends the process with kInternal when a guarded call
/// exceeds its limit, or when the rank makes no progress (comm/position.hpp) for that long in a section where
/// computing so long is never right; long before, it logs that a call waits. Time in which the process does
/// not run, as while suspended, does not count. Must be made early: its thread belongs to the memory of a
/// process before it does anything.
class Watchdog {
 public:
  /// `notice_seconds`: time after which a call is mentioned in the log, and between further mentions.
  explicit Watchdog(double notice_seconds = kNoticeSeconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Names this rank in the message.
  void set_rank(int rank);
  /// Sets the flags by which the `ranks` ranks of this machine ask each other for their positions; null:
  /// none.
  void share(NodeFlags* flags, int ranks);
  /// Sets the section of the job. All but "setup" and "finish" limit the time without progress.
  void set_section(std::string_view section, double limit_seconds);
  /// Sets the function that the watchdog thread calls, with the outcome to report, before it ends a process
  /// that computes for too long.
  void on_stall(std::function<void(const Outcome&)> last_words);

  /// Makes every rank of the machine report its section, its last operations and the stack of its working
  /// thread. Returns once they have, or after two seconds. Works once; does nothing without a watchdog.
  static void locate_ranks() noexcept;

  /// Watches a call for the lifetime of the object. One at a time.
  class Guard {
   public:
    Guard(Watchdog& watchdog, std::string call, double limit_seconds);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Watchdog& watchdog_;
  };
  /// Guards a call by the process's watchdog, if there is one. For libraries that may block although they
  /// promise not to.
  [[nodiscard]] static std::optional<Guard> guard(std::string call, double limit_seconds);

 private:
  void run();
  void look(double slept);
  void look_at_call();
  void look_at_section();
  void locate() noexcept;
  void await_locations() noexcept;
  [[noreturn]] void explain_and_exit() noexcept;
  [[noreturn]] void end_stalled(double seconds) noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  // Whether a call is guarded; the members below describe it.
  bool armed_ = false;
  std::string call_;
  double call_limit_ = 0;
  double notice_seconds_;
  Stopwatch waited_;        ///< time since the guarded call began
  double suspended_ = 0;    ///< seconds of `waited_` in which the process was suspended
  double next_notice_ = 0;  ///< seconds of `waited_` at which the next notice is due
  // The section of the job, for the members below.
  std::string section_;
  /// Whether the rank has waited for its limit, and asks the others for their positions.
  std::atomic<bool> gives_up_ = false;
  double section_limit_ = 0;  ///< largest time without progress in the section, seconds; 0: no limit
  std::function<void(const Outcome&)> last_words_;
  // Flags of a rank that shares none.
  NodeFlags own_flags_;
  std::atomic<NodeFlags*> flags_{&own_flags_};
  std::atomic<int> ranks_{1};
  bool is_located_ = false;
  std::string rank_text_;
  ThreadStack stack_;
  std::thread thread_;
};

}  // namespace sluice
