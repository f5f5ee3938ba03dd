// Trial of a user's file in a child process, where it can do no harm.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// Limits of a trial in a child process.
struct TrialLimits {
  double seconds = 30;
  /// Address space that the child may add to the process's own.
  std::int64_t extra_bytes = std::int64_t{1} << 30;
};

/// Calls `look` in a child process. If a file makes a library crash, wait or run for ever, or take memory
/// without end, this happens there, and Error(kBadData) says so of `file`, within the limits. Errors of
/// `look` are thrown here as well; nothing else of what it does is seen here. Error(kTooLittle) if the system
/// gives no process. Only the calling thread exists in the child: `look` must neither log nor wait for
/// others.
void try_in_child(const std::string& file, const std::function<void()>& look, const TrialLimits& limits = {});

}  // namespace sluice
