#include "comm/nodes.hpp"

#include "base/error.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace sluice {
namespace {

/// Name of this machine: the same in all containers on it, and different on other machines.
std::string name_of_this_machine() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  if (!boot_id.empty()) return boot_id;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

/// Element number `rank` of a comma-separated list.
std::string pretended_node(const std::string& nodes, const Communicator& comm) {
  std::istringstream in(nodes);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  if (static_cast<int>(names.size()) != comm.size())
    fail(ExitCode::kUsage,
         "SLUICE_NODES=\"{}\" names the nodes of {} ranks, expected {}, a number for each rank", nodes,
         names.size(), comm.size());
  return names[static_cast<std::size_t>(comm.rank())];
}

}  // namespace

std::vector<int> find_nodes(Communicator& comm, const std::string& sight) {
  const char* const pretended = std::getenv("SLUICE_NODES");
  const std::string mine =
      pretended != nullptr ? pretended_node(pretended, comm) : name_of_this_machine() + "\n" + sight;
  std::map<std::string, int> numbers;
  std::vector<int> nodes;
  for (const std::string& name : comm.all_gather_text(mine))
    nodes.push_back(numbers.emplace(name, static_cast<int>(numbers.size())).first->second);
  return nodes;
}

}  // namespace sluice
