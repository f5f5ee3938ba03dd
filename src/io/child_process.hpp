// Child processes: programs that this process starts and that end with their owner at the latest, or that
// replace this process.
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

/// Both ends of a pipe; a child program gets an end only as one of its standard streams.
struct Pipe {
  FileDescriptor reading{-1};
  FileDescriptor writing{-1};
};
/// Makes a pipe. Error(kTooLittle) if the system has none left.
[[nodiscard]] Pipe make_pipe();

/// A word in quotes, as a shell reads it back.
[[nodiscard]] std::string shell_word(std::string_view word);

/// Replaces this process by program words[0], looked for in PATH; returns errno if it cannot be started.
[[nodiscard]] int become_program(std::vector<std::string> words);

/// Exit status for a status of waitpid(): 128 plus the signal's number if a signal has ended the process.
[[nodiscard]] int exit_status(int wait_status);

/// The three standard streams of a child program; -1 is /dev/null. The descriptors stay the caller's.
struct ChildStreams {
  int input = -1;
  int output = -1;
  int error = -1;
};

/// Whether a terminal's signals, such as Ctrl-C, reach a child program together with this process.
enum class ProcessGroup { kShared, kOwn };

/// A child process; the destructor kills and reaps it if it has not ended.
class ChildProcess {
 public:
  /// Takes over a child that fork() has made.
  explicit ChildProcess(pid_t process) : process_(process) {}
  /// Starts program words[0], looked for in PATH, with no signal blocked. Copies no memory of this process,
  /// whatever its size. Error(kTooLittle) if it cannot be started.
  ChildProcess(std::vector<std::string> words, const ChildStreams& streams,
               ProcessGroup group = ProcessGroup::kShared);
  ChildProcess(ChildProcess&& other) noexcept : process_(std::exchange(other.process_, -1)) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Sends the child a signal, unless it is known to have ended.
  void signal(int number) const;

  /// Status of the child as waitpid() returns it; nothing if it still runs at the deadline. Succeeds once
  /// only.
  [[nodiscard]] std::optional<int> wait_until(const Deadline& deadline);

 private:
  pid_t process_ = -1;
};

}  // namespace sluice
