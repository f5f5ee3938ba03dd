// A thread that looks at the one that works: limits on calls that can only block, MPI's start, split, free
// and finalize, and on computing without end; and says where this rank is when a limit passes here or
// elsewhere on the machine.
#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/node_flags.hpp"
#include "comm/outcome.hpp"
#include "comm/thread_stack.hpp"
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

/// Ends the process with `code` after at most `seconds`, whatever its threads do. For the last words of a
/// process: a write to a full pipe or a call into a broken library may never return.
void exit_within(unsigned seconds, ExitCode code) noexcept;
/// Takes exit_within() back: the process goes on.
void cancel_exit() noexcept;

/// One in a process, made by the thread that works. Ends the process with kInternal when a guarded call takes
/// longer than its limit, or when the rank makes no progress (comm/position.hpp) for that long in a section
/// in which it is never right to compute so long; long before, it says that a call waits. Time in which the
/// process does not run, as while it is suspended, does not count. Make it early: its thread belongs to the
/// memory a process has before it does anything.
class Watchdog {
 public:
  /// Speaks of a call first after `notice_seconds`, and again each time as much has passed.
  explicit Watchdog(double notice_seconds = kNoticeSeconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Names this rank in the message.
  void set_rank(int rank);
  /// Shares the flags by which the `ranks` of this machine ask each other for their positions; null: none.
  void share(NodeFlags* flags, int ranks);
  /// The rank is in that section from here on. All but "setup" and "finish" limit the time without progress.
  void set_section(std::string_view section, double limit_seconds);
  /// Called on this thread, before the process ends, with what is known of a rank that computes for too long.
  void on_stall(std::function<void(const Outcome&)> last_words);

  /// Every rank of the machine says where it is: its section, its last operations, the stack of the thread
  /// that works. Returns once they have, or after two seconds. The first time only; does nothing without a
  /// watchdog.
  static void locate_ranks() noexcept;

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
  /// Guards a call by the process's watchdog; nothing without one. For libraries that may block although they
  /// say they do not.
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
  // The call that is guarded.
  bool armed_ = false;
  std::string call_;
  double call_limit_ = 0;
  double notice_seconds_;
  Stopwatch waited_;        ///< time since the guarded call began
  double suspended_ = 0;    ///< seconds of `waited_` in which the process was suspended
  double next_notice_ = 0;  ///< seconds of `waited_` at which the next notice is due
  // The section.
  std::string section_;
  /// Whether the rank has waited for its limit, and asks where the others are.
  std::atomic<bool> gives_up_ = false;
  double section_limit_ = 0;  ///< seconds without progress in the section, at most; 0: no limit
  std::function<void(const Outcome&)> last_words_;
  // All ranks.
  NodeFlags own_flags_;
  std::atomic<NodeFlags*> flags_{&own_flags_};
  std::atomic<int> ranks_{1};
  bool is_located_ = false;
  std::string rank_text_;
  ThreadStack stack_;
  std::thread thread_;
};

}  // namespace sluice
