// Runs a command of this program on a host of a launch: directly on this machine, through the agent
// elsewhere.
#pragma once

#include "comm/outcome.hpp"
#include "io/child_process.hpp"
#include "io/file.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Words that start a command on another host, without its name and the command: from --mca plm_rsh_agent in
/// options of mpirun, or the environment, or mpirun's default. If they name several programs ("ssh : rsh"),
/// the first that exists. Error(kUsage) if none does.
[[nodiscard]] std::vector<std::string> agent_words(const std::vector<std::string>& launcher_options);

/// A command on a host, with its streams, none of which blocks. The destructor ends it.
class HostCommand {
 public:
  /// Starts the command. Error(kTooLittle) if the agent cannot be started.
  HostCommand(std::string host, const std::vector<std::string>& agent, const char* command);

  /// Writes as much as the command accepts at once; returns the bytes written, -1 if it reads no more.
  [[nodiscard]] std::int64_t write(std::string_view text);
  /// Next complete line of the output, without its end, if it is available at once. After the end of the
  /// output its descriptor is -1.
  [[nodiscard]] std::optional<std::string> next_line();

  /// Descriptors of the command's output and input; -1 once the output has ended.
  [[nodiscard]] int output() const { return output_.get(); }
  [[nodiscard]] int input() const { return input_.get(); }

  /// Reason why the command has failed: this program cannot be run there (kBadConfig), or the agent's
  /// message, or the host does not answer (kInternal), with what to do.
  [[nodiscard]] Outcome why_not_done();

 private:
  std::string host_;
  std::string program_;  ///< path of this program
  FileDescriptor input_{-1};
  FileDescriptor output_{-1};
  std::string text_;           ///< output that was read, without a complete line yet
  FileDescriptor errors_{-1};  ///< stderr of the command and of the agent
  std::optional<ChildProcess> child_;
};

}  // namespace sluice
