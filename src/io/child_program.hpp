// Programs that this process talks with, in lines and within deadlines.
#pragma once

#include "base/clock.hpp"
#include "io/child_process.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Where the error output of a child program goes.
enum class ErrorOutput { kDropped, kIntoOutput, kKept };

/// A child program with connections to its streams, none of which blocks. Not thread-safe. The program ends
/// with its owner.
class ChildProgram {
 public:
  /// Starts program words[0], looked for in PATH. Error(kTooLittle) if it cannot be started.
  explicit ChildProgram(const std::vector<std::string>& words, ErrorOutput errors = ErrorOutput::kDropped,
                        ProcessGroup group = ProcessGroup::kShared);

  /// Writes as much as the program takes at once; returns the bytes written, -1 if it reads no more.
  [[nodiscard]] std::int64_t write(std::string_view text);
  /// Lets the program see the end of its input.
  void end_input() { input_ = FileDescriptor(-1); }

  /// Next complete line of the output, without its end, if it is there at once. After the end of the output,
  /// or a gigabyte without a line's end, output() is -1.
  [[nodiscard]] std::optional<std::string> next_line();
  /// Writes a line and returns the next one of the output, both without their ends; nothing at the deadline,
  /// or if the program ends without one. After that there is nothing more to ask it.
  [[nodiscard]] std::optional<std::string> ask(std::string_view line, const Deadline& deadline);
  /// The output from here to its end, at most the first `most_bytes`; nothing if the end does not come before
  /// the deadline.
  [[nodiscard]] std::optional<std::string> rest_of_output(std::size_t most_bytes, const Deadline& deadline);
  /// What has arrived of an error output that is kept, up to 64 KiB.
  [[nodiscard]] std::string error_output();

  /// Descriptors of the program's output and input; -1 once the output or input has ended.
  [[nodiscard]] int output() const { return output_.get(); }
  [[nodiscard]] int input() const { return input_.get(); }

  /// Exit status, as exit_status() tells it; nothing if the program still runs at the deadline.
  [[nodiscard]] std::optional<int> wait_until(const Deadline& deadline);

 private:
  void read_output();

  FileDescriptor input_{-1};
  FileDescriptor output_{-1};
  FileDescriptor errors_{-1};
  std::string text_;          ///< output that was read, but not returned yet
  std::size_t searched_ = 0;  ///< bytes of text_ that hold no end of a line
  std::optional<ChildProcess> process_;
};

struct ProgramResult {
  int status = 0;      ///< exit status; 128 plus the signal's number if a signal has ended the program
  std::string output;  ///< stdout and stderr together, at most 64 KiB
};

/// Runs program words[0] without input, for its answer. Nothing if it cannot be started, or does not end
/// within `limit_seconds`, when it is killed.
[[nodiscard]] std::optional<ProgramResult> run_program(const std::vector<std::string>& words,
                                                       double limit_seconds);

}  // namespace sluice
