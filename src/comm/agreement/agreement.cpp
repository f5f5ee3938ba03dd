#include "comm/agreement/agreement.hpp"

#include "base/byte_stream.hpp"
#include "comm/agreement/agreement_differences.hpp"
#include "comm/ranks_text.hpp"

#include <map>
#include <string_view>

namespace sluice {
namespace {

constexpr std::size_t kFailureTextBytes = 4096;
constexpr std::size_t kFailuresShown = 5;

/// Summary of a rank's claim, which every rank gets in the first exchange.
struct Summary {
  Outcome outcome;
  std::string digests;  ///< hexadecimal digests of the rank's topics, one after the other
};

std::string to_bytes(const AgreementClaim& claim) {
  ByteWriter out;
  out.text(Outcome{claim.outcome, claim.outcome.text.substr(0, kFailureTextBytes)}.to_bytes());
  std::string digests;
  for (const AgreementTopic& topic : claim.topics) digests += topic.digest().hex();
  out.text(digests);
  return out.take();
}

Summary from_bytes(std::string_view bytes) {
  ByteReader in(bytes);
  Outcome outcome = Outcome::from_bytes(in.text());
  return {std::move(outcome), in.text()};
}

/// Report of different failures, that of the lowest rank first: "rank 1 failed: …"; "" if no rank failed.
std::string failures_report(const std::vector<Summary>& summaries) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    const Outcome& outcome = summaries[rank].outcome;
    if (!outcome.failed()) continue;
    auto& group = ranks[outcome.text_with_id()];
    if (group.empty()) order.push_back(outcome.text_with_id());
    group.push_back(static_cast<int>(rank));
  }
  std::string report;
  for (std::size_t i = 0; i < order.size() && i < kFailuresShown; ++i)
    report += fmt::format("{}{} failed: {}", i ? "\n" : "", ranks_text(ranks[order[i]]), order[i]);
  if (order.size() > kFailuresShown)
    report += fmt::format("\nand {} more failures", order.size() - kFailuresShown);
  return report;
}

Cause first_failure(const std::vector<Summary>& summaries) {
  for (const Summary& summary : summaries) {
    if (summary.outcome.failed()) return summary.outcome;
  }
  return {};
}

/// Ranks that have not failed, ascending.
std::vector<int> sound_ranks(const std::vector<Summary>& summaries) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    if (!summaries[rank].outcome.failed()) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

bool all_equal(const std::vector<Summary>& summaries, const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    if (summaries[static_cast<std::size_t>(rank)].digests !=
        summaries[static_cast<std::size_t>(ranks[0])].digests)
      return false;
  }
  return true;
}

/// Collective over `comm`. Report of the entries of all topics that differ among `ranks`.
std::string differences_report(Communicator& comm, const AgreementClaim& claim,
                               const std::vector<int>& ranks) {
  std::string report = "the ranks disagree; nothing was allocated or sent";
  const std::int64_t count = std::ssize(claim.topics);
  // A failed rank has no topics, but takes part in the rounds of the others.
  std::vector<std::int64_t> most{count};
  comm.all_reduce_max(most);
  for (std::int64_t i = 0; i < most[0]; ++i) {
    static const AgreementTopic kNothing;
    const AgreementTopic& topic = i < count ? claim.topics[static_cast<std::size_t>(i)] : kNothing;
    for (const std::string& line : find_differences(comm, topic, ranks))
      report += fmt::format("\n  {}", line);
  }
  return report;
}

}  // namespace

Digest AgreementTopic::digest() const {
  // Lengths in the text keep "a" + "bc" apart from "ab" + "c".
  std::string text = fmt::format("{}:{};", name.size(), name);
  for (const Entry& entry : entries)
    text += fmt::format("{}:{}{}:{}", entry.key.size(), entry.key, entry.value.size(), entry.value);
  return digest_of(text);
}

AgreementResult agree(Communicator& comm, const AgreementClaim& claim) {
  comm.barrier();
  std::vector<Summary> summaries;
  for (const std::string& text : comm.all_gather_text(to_bytes(claim))) summaries.push_back(from_bytes(text));

  AgreementResult result{first_failure(summaries), failures_report(summaries)};
  const std::vector<int> ranks = sound_ranks(summaries);
  if (ranks.empty() || all_equal(summaries, ranks)) return result;

  const Outcome difference{{ExitCode::kInternal, "comm.disagreement"},
                           differences_report(comm, claim, ranks)};
  if (result.code == ExitCode::kDone) static_cast<Cause&>(result) = difference;
  if (!result.report.empty()) result.report += "\n";
  result.report += difference.text_with_id();
  return result;
}

}  // namespace sluice
