// Runs a command of this program on a host of a launch: directly on this machine, through the agent
// elsewhere.
#pragma once

#include "comm/outcome.hpp"
#include "io/child_program.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Words that start a command on another host, without its name and the command: from --mca plm_rsh_agent in
/// options of mpirun, or the environment, or mpirun's default. If they name several programs ("ssh : rsh"),
/// the first that exists. Error(kUsage) if none does.
[[nodiscard]] std::vector<std::string> agent_words(const std::vector<std::string>& launcher_options);

/// A command of this program on a host.
class HostCommand : public ChildProgram {
 public:
  /// Starts the command. Error(kTooLittle) if the agent cannot be started.
  HostCommand(std::string host, const std::vector<std::string>& agent, const char* command);

  /// Reason why the command has failed: this program cannot be run there (kBadConfig), or the agent's
  /// message, or the host does not answer (kInternal), with what to do.
  [[nodiscard]] Outcome why_not_done();

 private:
  std::string host_;
};

}  // namespace sluice
