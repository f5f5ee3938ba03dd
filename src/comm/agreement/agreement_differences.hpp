// Search for the entries of a topic that differ, by digests, so that only the few entries that are named are
// exchanged as text.
#pragma once

#include "comm/agreement/agreement.hpp"
#include "comm/communicator.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Collective over `comm`, in rounds of bounded size. Lines such as "tensor a.weight: [8] float32 on rank 0;
/// absent on ranks 1, 2" for the first entries that differ among `ranks` (those that have the topic), in the
/// order of the lowest rank that has them; then "and N more". Empty if all agree; the same on every rank.
[[nodiscard]] std::vector<std::string> find_differences(Communicator& comm, const AgreementTopic& topic,
                                                        const std::vector<int>& ranks);

}  // namespace sluice
