// Waiting under a deadline, without spinning.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// A wait is logged each time it has lasted this much longer.
inline constexpr double kNoticeSeconds = 10;
/// A process that has not run for so long was suspended, and that time does not count against limits.
inline constexpr double kSuspendedSeconds = 2;

/// How long a wait may last, and the part of the job it belongs to ("load", "step").
struct WaitLimit {
  std::string section;
  double seconds;
};

/// An operation as messages name it: "all_gather #17 on rank 0".
struct Operation {
  const char* name;
  /// Number of the operation, from 1 on each communicator; alike on all ranks for collectives.
  std::int64_t sequence;
  int rank;
};

/// An operation that makes progress when it is tested.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// True once finished. Never blocks.
  virtual bool test() = 0;
  /// Who is still awaited: "rank 2", "ranks 1, 2". For messages.
  [[nodiscard]] virtual std::string missing() const = 0;
};

/// Polls until finished, sleeping between polls in proportion to the time waited so far (5 % up to 1 ms, then
/// 1 % up to 5 ms): short waits end quickly and long ones leave the core to others. Logs a line every 10 s.
/// When the limit passes every rank of this machine says where it is (comm/watchdog.hpp), then
/// Error(kInternal).
void wait_for(Pollable& work, const WaitLimit& limit, const Operation& operation);
/// Waits until is_done() is true; `missing` names the ranks that are waited for, as Pollable::missing() does.
void wait_for(const std::function<bool()>& is_done, const std::function<std::string()>& missing,
              const WaitLimit& limit, const Operation& operation);

}  // namespace sluice
