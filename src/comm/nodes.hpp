// Nodes: ranks that share a machine, and with it memory and local files.
#pragma once

#include "comm/communicator.hpp"

#include <vector>

namespace sluice {

/// Collective over `comm`. The node of each rank, the same on every rank: numbered from 0 in the order of
/// their lowest ranks. Ranks under one kernel are on one node. The environment's SLUICE_NODES ("0,0,1", a
/// number for each rank) pretends other nodes, for tests; Error(kUsage) if it is not that.
[[nodiscard]] std::vector<int> find_nodes(Communicator& comm);

}  // namespace sluice
