#include "train/guard/rank_comparison.hpp"

#include "base/digest.hpp"
#include "base/error.hpp"
#include "comm/agreement/agreement.hpp"
#include "comm/agreement/agreement_differences.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

namespace sluice {
namespace {

/// A number in 17 digits, which represent every double exactly.
std::string exact(double value) { return fmt::format("{:.17g}", value); }

AgreementTopic topic_of(const CommonValues& values) {
  const Digest tokens = digest_of(std::as_bytes(std::span(values.expert_tokens)), 0);
  return {"value",
          {{"step", fmt::format("{}", values.step)},
           {"update counter", fmt::format("{}", values.updates)},
           {"learning rate", exact(values.learning_rate)},
           {"loss", exact(values.loss)},
           {"load-balancing loss", exact(values.aux_loss)},
           {"router's z-loss", exact(values.z_loss)},
           {"gradient norm", exact(values.grad_norm)},
           {"digest of expert token counts", tokens.hex()}}};
}

}  // namespace

void require_same_on_all_ranks(Communicator& comm, const CommonValues& values) {
  const AgreementTopic topic = topic_of(values);
  const std::vector<std::string> digests = comm.all_gather_text(topic.digest().hex());
  if (std::ranges::adjacent_find(digests, std::ranges::not_equal_to()) == digests.end()) return;
  std::vector<int> ranks(digests.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::vector<std::string> lines = find_differences(comm, topic, ranks);
  fail({ExitCode::kInternal, "train.ranks_differ"},
       "after step {} the ranks do not have the same numbers, so their weights no longer belong together. "
       "Likely cause: a fault of memory or processor on the rank that differs. Go on from the last saved "
       "step.\n  {}",
       values.step, fmt::join(lines, "\n  "));
}

}  // namespace sluice
