// This program with a command on a host of a launch, by itself on this machine and through the agent
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

/// Words that start a command on another host, but for its name and the command: of --mca plm_rsh_agent in
/// options of mpirun, or of the environment, or those that mpirun takes by default. Of several programs ("ssh
/// : rsh") the first that is there. Error(kUsage) if none is.
[[nodiscard]] std::vector<std::string> agent_words(const std::vector<std::string>& launcher_options);

/// The started command with its streams, none of which blocks. Ends it when destroyed.
class HostCommand {
 public:
  /// Error(kTooLittle) if the agent cannot be started.
  HostCommand(std::string host, const std::vector<std::string>& agent, const char* command);

  /// Writes as much as the command takes at once; returns the bytes that it took, or -1 if it reads no more.
  [[nodiscard]] std::int64_t write(std::string_view text);
  /// What can be read of its output at once: "" where there is nothing; after its end the descriptor is -1.
  [[nodiscard]] std::string read();

  /// Descriptors of its output and its input; -1 once its output has ended.
  [[nodiscard]] int output() const { return output_.get(); }
  [[nodiscard]] int input() const { return input_.get(); }

  /// Why the command has not done its work: that this program cannot be run there (kBadConfig), or what the
  /// agent has said, or that the host does not answer (kInternal), with what to do.
  [[nodiscard]] Outcome why_not_done();

 private:
  std::string host_;
  std::string program_;  ///< this program's path
  FileDescriptor input_{-1};
  FileDescriptor output_{-1};
  FileDescriptor errors_{-1};  ///< stderr, the agent's included
  std::optional<ChildProcess> child_;
};

}  // namespace sluice
