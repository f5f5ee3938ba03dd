// Helper process: a program that answers each line with a line, for the lifetime of its owner.
#pragma once

#include "io/child_process.hpp"
#include "io/file.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// A helper process. Not thread-safe. The program ends with its owner; its error output is dropped.
class HelperProcess {
 public:
  /// Starts program words[0], looked for in PATH. Error(kTooLittle) if it cannot be started.
  explicit HelperProcess(const std::vector<std::string>& words);

  /// Sends a line and returns the answer, both without line breaks; nothing if the program has ended, or
  /// answers with more than a gigabyte. Error(kBadData) after `deadline_seconds`, which names `what` was
  /// asked; the program is then ended.
  [[nodiscard]] std::optional<std::string> ask(std::string_view line, double deadline_seconds,
                                               std::string_view what);

 private:
  FileDescriptor socket_;
  std::optional<ChildProcess> program_;  ///< the running program; empty once it was ended for being late
};

}  // namespace sluice::corpus
