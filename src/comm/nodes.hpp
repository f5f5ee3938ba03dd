// Nodes: ranks that share a machine, and with it memory; and, where these see the same, files.
#pragma once

#include "comm/communicator.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Collective over `comm`. The node of each rank, the same on every rank: numbered from 0 in the order of
/// their lowest ranks. Ranks under one kernel with the same `sight`, a text about what a rank sees there, are on
/// one node: with "" all that share a machine's memory, with files_seen() those that share files as well, which
/// containers on a machine need not. The environment's SLUICE_NODES ("0,0,1", a number for each rank) pretends
/// other nodes, for tests; Error(kUsage) if it is not that.
[[nodiscard]] std::vector<int> find_nodes(Communicator& comm, const std::string& sight = "");

}  // namespace sluice
