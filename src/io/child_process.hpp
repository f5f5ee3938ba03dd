// A process started by this one, which ends with its owner at the latest.
#pragma once

#include "base/clock.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// The three standard streams of a program; -1 is /dev/null. The descriptors stay the caller's.
struct ChildStreams {
  int input = -1;
  int output = -1;
  int error = -1;
};

/// Whether the signals of a terminal, as Ctrl-C, reach a program with those that reach this process.
enum class ProcessGroup { kShared, kOwn };

/// Killed and reaped by its destructor, if it has not ended by then.
class ChildProcess {
 public:
  /// Takes over a child that fork() has made.
  explicit ChildProcess(pid_t process) : process_(process) {}
  /// Starts words[0], looked for in PATH, with no signal blocked. No memory of this process is copied,
  /// whatever its size. Error(kTooLittle) if it cannot be started.
  ChildProcess(std::vector<std::string> words, const ChildStreams& streams,
               ProcessGroup group = ProcessGroup::kShared);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Its status as waitpid() has it; nothing if it is still running when the deadline passes. Once only.
  [[nodiscard]] std::optional<int> wait_until(const Deadline& deadline);

 private:
  pid_t process_ = -1;
};

}  // namespace sluice
