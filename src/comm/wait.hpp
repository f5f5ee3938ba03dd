// Waiting under a deadline, without spinning.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// Seconds between two log lines about the same wait.
inline constexpr double kNoticeSeconds = 10;
/// Seconds without running from which on a process counts as suspended; such time does not count against
/// limits.
inline constexpr double kSuspendedSeconds = 2;

/// Limit of a wait in seconds, and the section of the job to which it belongs ("load", "step").
struct WaitLimit {
  std::string section;
  double seconds;
};

/// An operation as messages name it: "all_gather #17 on rank 0".
struct Operation {
  const char* name;
  /// Number of the operation on its communicator, from 1; for collectives the same on all ranks.
  std::int64_t sequence;
  int rank;
};

/// An operation that makes progress when it is tested.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// True once finished. Never blocks.
  virtual bool test() = 0;
  /// The ranks that are still awaited, for messages: "rank 2", "ranks 1, 2".
  [[nodiscard]] virtual std::string missing() const = 0;
};

/// Polls until finished, sleeping between polls in proportion to the time waited so far (5 % up to 1 ms,
/// then 1 % up to 5 ms): short waits end quickly, and long ones leave the core to others. Logs a line every
/// 10 s. When the limit passes, every rank of this machine reports its position
/// (comm/failure/watchdog.hpp), then throws Error(kInternal).
void wait_for(Pollable& work, const WaitLimit& limit, const Operation& operation);
/// Waits until is_done() is true; `missing` names the awaited ranks, as Pollable::missing() does.
void wait_for(const std::function<bool()>& is_done, const std::function<std::string()>& missing,
              const WaitLimit& limit, const Operation& operation);

}  // namespace sluice
