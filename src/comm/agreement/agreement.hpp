// Do all ranks mean the same model and job? Compared before anything is allocated or sent.
#pragma once

#include "base/digest.hpp"
#include "comm/communicator.hpp"
#include "comm/outcome.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Something the ranks must agree on: lines "key -> value" whose order is part of the meaning (a manifest),
/// or not (a config).
struct AgreementTopic {
  std::string name;  ///< kind of the subject: "tensor", "job key"
  struct Entry {
    std::string key;
    std::string value;
  };
  std::vector<Entry> entries;
  [[nodiscard]] Digest digest() const;
};

/// Claim of one rank in the agreement: its topics, or the failure that kept it from making them.
struct AgreementClaim {
  std::vector<AgreementTopic> topics;  ///< same topics in the same order on every rank that has no failure
  Outcome outcome{};
};

/// Outcome on every rank alike. code is kDone when all agree; else the code of the lowest failing rank, or
/// kInternal for a disagreement. report is the one block that rank 0 prints: the root cause and its rank, or
/// for each topic the first differing entries, with the ranks that have which value.
struct AgreementResult {
  ExitCode code = ExitCode::kDone;
  std::string report;
};

/// Collective over `comm`: one barrier and one exchange of digests; entries travel only when digests differ,
/// and then only as many rounds of bounded size as are needed to name the first few differences.
[[nodiscard]] AgreementResult agree(Communicator& comm, const AgreementClaim& claim);

}  // namespace sluice
