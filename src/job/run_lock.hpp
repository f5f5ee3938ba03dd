// Lock of a run directory, on file systems with and without locks.
#pragma once

#include "io/file.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace sluice {

/// Seconds between two times that the status of a run without a lock is written, whatever it does.
inline constexpr double kHeartbeatSeconds = 10;

/// The lock of a run directory, held until the process ends, however it ends: a stale lock cannot happen.
class RunLock {
 public:
  RunLock() = default;  ///< no lock

  /// Takes it. Error(kBadConfig) if another job has it, or, where the file system has no locks, if the status
  /// in the directory is that of a process which is there; Error(kIo) if the file cannot be made.
  explicit RunLock(const std::filesystem::path& directory);

  /// "" if it is held; else why the file system gives none: "No locks available (errno 37)". A warning has
  /// told.
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

/// The name of this machine.
[[nodiscard]] std::string host_name();

}  // namespace sluice
