// The one monitor of a run on a machine.
#pragma once

#include "io/file.hpp"

#include <string>

namespace sluice {

/// Place of the one monitor of a run on this machine: a file that is locked while the monitor lives, holds
/// its process id, and is as old as the launch's last message.
class MonitorPlace {
 public:
  /// Waits until another launch of the run has ended, and ends a monitor that has lost its launch. False if
  /// another launch is still running. Error(kIo) if the file cannot be created.
  [[nodiscard]] bool take(const std::string& run);

  /// Records that the launch is alive.
  void touch() const;

 private:
  [[nodiscard]] double seconds_since_word() const;
  void end_holder() const;

  FileDescriptor file_{-1};
};

}  // namespace sluice
