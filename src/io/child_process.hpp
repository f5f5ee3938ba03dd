// Other programs: as a process started by this one, which ends with its owner at the latest, or in its place.
#pragma once

#include "base/clock.hpp"
#include "io/file.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// Both ends of a pipe, which a program that is started has only as its streams.
struct Pipe {
  FileDescriptor reading{-1};
  FileDescriptor writing{-1};
};
/// Error(kTooLittle) if the system has none left.
[[nodiscard]] Pipe make_pipe();

/// A word in quotes, as a shell reads it.
[[nodiscard]] std::string shell_word(std::string_view word);

/// Replaces this process by words[0], looked for in PATH; returns only if it cannot be started, with errno.
[[nodiscard]] int become_program(std::vector<std::string> words);

/// Exit status by what waitpid() has told: 128 and the signal's number where one has ended the process.
[[nodiscard]] int exit_status(int wait_status);

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
  ChildProcess(ChildProcess&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Sends it a signal, unless its status is known.
  void signal(int number) const;

  /// Its status as waitpid() has it; nothing if it is still running when the deadline passes. Once only.
  [[nodiscard]] std::optional<int> wait_until(const Deadline& deadline);

 private:
  pid_t process_ = -1;
};

}  // namespace sluice
