// Agreement: comparison of the ranks' models and jobs before anything is allocated or sent.
#pragma once

#include "base/digest.hpp"
#include "comm/communicator.hpp"
#include "comm/outcome.hpp"

#include <string>
#include <vector>

namespace sluice {

/// A subject on which the ranks must agree: lines "key -> value" whose order matters (a manifest), or does
/// not (a config).
struct AgreementTopic {
  std::string name;  ///< kind of the subject, for messages: "tensor", "job key"
  struct Entry {
    std::string key;
    std::string value;
  };
  std::vector<Entry> entries;
  [[nodiscard]] Digest digest() const;
};

/// Claim of one rank in the agreement: its topics, or the failure that kept it from making them.
struct AgreementClaim {
  std::vector<AgreementTopic> topics;  ///< topics in the same order on every rank that has not failed
  Outcome outcome{};
};

/// Result of the agreement, the same on every rank. Its code is kDone if all agree; else its cause is that of the
/// lowest failing rank, or kInternal if ranks disagree. `report` is the block that rank 0 prints: the cause and its
/// rank, or for each topic the first differing entries, with the ranks that have which value.
struct AgreementResult : Cause {
  std::string report;
};

/// Collective over `comm`: one barrier and one exchange of digests. Entries travel only if digests differ,
/// and then in only as many rounds of bounded size as are needed to name the first few differences.
[[nodiscard]] AgreementResult agree(Communicator& comm, const AgreementClaim& claim);

}  // namespace sluice
