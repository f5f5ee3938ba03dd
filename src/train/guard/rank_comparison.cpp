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

/// Fails because ranks differ in `what`, as `lines` say.
[[noreturn]] void fail_for_ranks(std::int64_t step, const char* what, const std::vector<std::string>& lines) {
  fail({ExitCode::kInternal, "train.ranks_differ"},
       "after step {} the ranks do not have the same {}, so their weights no longer belong together. "
       "Likely cause: a fault of memory or processor on the rank that differs. Go on from the last saved "
       "step.\n  {}",
       step, what, fmt::join(lines, "\n  "));
}

}  // namespace

void require_same_on_all_ranks(Communicator& comm, const CommonValues& values) {
  const AgreementTopic topic = topic_of(values);
  const std::vector<std::string> digests = comm.all_gather_text(topic.digest().hex());
  if (std::ranges::adjacent_find(digests, std::ranges::not_equal_to()) == digests.end()) return;
  std::vector<int> ranks(digests.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  fail_for_ranks(values.step, "numbers", find_differences(comm, topic, ranks));
}

void require_same_weights_in_sets(const RankSets& sets, const ShardArena& weights, std::int64_t step) {
  if (sets.counterparts() == nullptr) return;
  const std::int64_t bytes = weights.plan().trained_elements(weights.rank()) * size_of(weights.dtype());
  const std::span trained(weights.data(), static_cast<std::size_t>(bytes));
  const std::span whole(reinterpret_cast<const std::byte*>(weights.buffers()),
                        static_cast<std::size_t>(weights.buffer_elements() * size_of(DType::kFloat32)));
  const std::vector<std::string> digests = sets.all().all_gather_text(
      weights.paged() == nullptr ? (digest_of(trained, 0) += digest_of(whole, 1)).hex() : "");
  std::vector<std::string> lines;
  for (std::size_t rank = static_cast<std::size_t>(sets.own().size()); rank < digests.size(); ++rank) {
    const std::size_t first = rank % static_cast<std::size_t>(sets.own().size());
    if (digests[rank].empty() || digests[first].empty() || digests[rank] == digests[first]) continue;
    lines.push_back(fmt::format("trained weights, digest: found {} on rank {}, and {} on rank {}",
                                digests[rank], rank, digests[first], first));
  }
  if (!lines.empty()) fail_for_ranks(step, "weights in all copies of the model", lines);
}

}  // namespace sluice
