// A program that answers one line with one line, for as long as its owner lives.
#pragma once

#include "io/child_process.hpp"
#include "io/file.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// Not for several threads at once. The program is ended with its owner; of its error output nothing is seen.
class HelperProcess {
 public:
  /// Starts words[0], looked for in PATH. Error(kTooLittle) if it cannot be started.
  explicit HelperProcess(const std::vector<std::string>& words);

  /// Sends a line and returns the answer, both without their line break; nothing if the program has ended, or
  /// answers with more than a gigabyte. Error(kBadData) after `deadline_seconds`, calling what is asked for
  /// `what`; the program is then ended and answers no more.
  [[nodiscard]] std::optional<std::string> ask(std::string_view line, double deadline_seconds,
                                               std::string_view what);

 private:
  FileDescriptor socket_;
  std::optional<ChildProcess> program_;  ///< the running program; empty once it was ended for being late
};

}  // namespace sluice::corpus
