// Waiting under a deadline, without spinning.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// A wait is first logged after this time, and again each time it has doubled.
inline constexpr double kFirstNoticeSeconds = 10;

/// How long a wait may last, and the part of the job it belongs to ("load", "step").
struct WaitLimit {
  std::string section;
  double seconds;
};

/// What is waited for, as messages name it: "all_gather #17 on rank 0".
struct Operation {
  const char* name;
  std::int64_t sequence;  ///< counted from 1 on each communicator, alike on all ranks for collectives
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
/// 1 % up to 5 ms): short waits end quickly and long ones leave the core to others. Logs a line after 10 s,
/// and again each time the wait has doubled; Error(kInternal) when the limit passes.
void wait_for(Pollable& work, const WaitLimit& limit, const Operation& operation);

}  // namespace sluice
