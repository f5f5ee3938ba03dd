// Lock of a run directory, on file systems with and without locks.
#pragma once

#include "io/file.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace sluice {

/// Seconds between two writes of the status of a run without a lock, whatever the run does.
inline constexpr double kHeartbeatSeconds = 10;

/// Lock of a run directory, held until the process ends in any way, so that no stale lock is left.
class RunLock {
 public:
  RunLock() = default;  ///< an object without a lock

  /// Takes the lock. Error(kBadConfig) if another job has it, or, on a file system without locks, if the
  /// process of the directory's status exists; Error(kIo) if the file cannot be created.
  explicit RunLock(const std::filesystem::path& directory);

  /// Reason why the file system gives no lock, "No locks available (errno 37)"; "" if the lock is held. A
  /// warning has told it.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

 private:
  FileDescriptor file_{-1};
  std::string refusal_;
};

/// Whether the run whose status.json holds `status`, which tells of no end, is there still: by its lock. Of a
/// run without one ("locked" is false) its own machine tells by the process, another one by the age of the
/// status, which such a run writes every ten seconds. What nothing tells of, as of a lock that may not be
/// looked at, is taken to run.
[[nodiscard]] bool is_running(const std::filesystem::path& directory, const nlohmann::json& status);

}  // namespace sluice
