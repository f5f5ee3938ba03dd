#include "comm/agreement/agreement_differences.hpp"

#include "base/round.hpp"
#include "base/text.hpp"
#include "comm/ranks_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace sluice {
namespace {

constexpr std::int64_t kEntriesPerRound = 4096;
constexpr std::size_t kNamed = 5;
constexpr std::size_t kValueBytes = 200;

/// An entry as it is exchanged in the search: digests of its key and value, and its place on its rank.
struct Mark {
  std::uint64_t key;
  std::uint64_t value;
  std::int64_t position;
};

/// A key whose values differ between ranks. Keys are ordered as messages name them.
struct Difference {
  int rank;  ///< lowest rank that has the key
  std::int64_t position;
  std::uint64_t key;
  auto operator<=>(const Difference&) const = default;
};

std::uint64_t short_digest(std::string_view text) { return digest_of(text).low; }

/// Collective over `comm`. The marks of every rank, in rank order.
std::vector<std::vector<Mark>> all_gather_marks(Communicator& comm, const std::vector<Mark>& own) {
  const std::string_view bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Mark));
  std::vector<std::vector<Mark>> all;
  for (const std::string& text : comm.all_gather_text(bytes)) {
    std::vector<Mark>& marks = all.emplace_back(text.size() / sizeof(Mark));
    if (!text.empty()) std::memcpy(marks.data(), text.data(), text.size());
  }
  return all;
}

/// Adds the keys of one round that are missing or different on some of `ranks`.
void compare(const std::vector<std::vector<Mark>>& all, const std::vector<int>& ranks,
             std::vector<Difference>& differences) {
  struct Seen {
    Difference first;
    std::uint64_t value;
    std::size_t equal = 0;
  };
  std::unordered_map<std::uint64_t, Seen> seen;
  for (const int rank : ranks) {
    for (const Mark& mark : all[static_cast<std::size_t>(rank)]) {
      const auto at = seen.try_emplace(mark.key, Seen{{rank, mark.position, mark.key}, mark.value}).first;
      if (at->second.value == mark.value) ++at->second.equal;
    }
  }
  for (const auto& [key, entry] : seen) {
    if (entry.equal != ranks.size()) differences.push_back(entry.first);
  }
}

/// Collective over `comm`. All keys that differ, in order. Keys are assigned to rounds by their digest, so
/// that each round is complete for its keys and no rank ever holds more than one round.
std::vector<Difference> differing_keys(Communicator& comm, const AgreementTopic& topic,
                                       const std::vector<int>& ranks) {
  std::vector<std::int64_t> rounds{divide_up<std::int64_t>(std::ssize(topic.entries), kEntriesPerRound)};
  comm.all_reduce_max(rounds);
  std::vector<Difference> differences;
  for (std::int64_t round = 0; round < rounds[0]; ++round) {
    std::vector<Mark> own;
    for (std::int64_t i = 0; i < std::ssize(topic.entries); ++i) {
      const AgreementTopic::Entry& entry = topic.entries[static_cast<std::size_t>(i)];
      const std::uint64_t key = short_digest(entry.key);
      if (key % static_cast<std::uint64_t>(rounds[0]) == static_cast<std::uint64_t>(round))
        own.push_back({key, short_digest(entry.value), i});
    }
    compare(all_gather_marks(comm, own), ranks, differences);
  }
  std::sort(differences.begin(), differences.end());
  return differences;
}

/// Text that says which ranks have which value, in the order of the lowest ranks: "[8, 64] on rank 0; [9, 64]
/// on ranks 1, 2".
std::string groups_text(const std::vector<std::string>& texts, const std::vector<int>& ranks) {
  std::vector<std::pair<std::string_view, std::vector<int>>> groups;
  for (const int rank : ranks) {
    const std::string_view text = texts[static_cast<std::size_t>(rank)];
    auto at =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == text; });
    if (at == groups.end()) at = groups.insert(at, {text, {}});
    at->second.push_back(rank);
  }
  std::string result;
  for (const auto& [text, members] : groups)
    result += fmt::format("{}{} on {}", result.empty() ? "" : "; ", text, ranks_text(members));
  return result;
}

/// Collective over `comm`. Line about a key that differs.
std::string describe(Communicator& comm, const AgreementTopic& topic, const std::vector<int>& ranks,
                     const Difference& difference) {
  const auto own = std::find_if(topic.entries.begin(), topic.entries.end(),
                                [&](const auto& entry) { return short_digest(entry.key) == difference.key; });
  const bool here = own != topic.entries.end();
  const auto named = fmt::format("{} {}", topic.name, here ? printable(own->key, kValueBytes) : "");
  const std::string name = comm.broadcast_text(named, difference.rank);
  const auto values = comm.all_gather_text(here ? printable(own->value, kValueBytes) : "absent");
  return fmt::format("{}: {}", name, groups_text(values, ranks));
}

/// Collective over `comm`. For equal sets of entries, the first place where their order differs, or nothing.
std::optional<std::string> order_difference(Communicator& comm, const AgreementTopic& topic,
                                            const std::vector<int>& ranks) {
  std::vector<std::int64_t> count{std::ssize(topic.entries)};
  comm.all_reduce_max(count);
  for (std::int64_t begin = 0; begin < count[0]; begin += kEntriesPerRound) {
    std::vector<Mark> own;
    for (std::int64_t i = begin; i < std::min(begin + kEntriesPerRound, std::ssize(topic.entries)); ++i)
      own.push_back({short_digest(topic.entries[static_cast<std::size_t>(i)].key), 0, i});
    const auto all = all_gather_marks(comm, own);
    const std::vector<Mark>& first = all[static_cast<std::size_t>(ranks[0])];
    for (std::size_t i = 0; i < first.size(); ++i) {
      const auto differs = [&](int rank) {
        return all[static_cast<std::size_t>(rank)][i].key != first[i].key;
      };
      if (std::none_of(ranks.begin(), ranks.end(), differs)) continue;
      const auto position = static_cast<std::size_t>(begin) + i;
      const bool here = position < topic.entries.size();
      const auto keys = comm.all_gather_text(here ? printable(topic.entries[position].key, kValueBytes) : "");
      const std::string name = comm.broadcast_text(topic.name, ranks[0]);
      return fmt::format("{} number {}: {}", name, position, groups_text(keys, ranks));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> find_differences(Communicator& comm, const AgreementTopic& topic,
                                          const std::vector<int>& ranks) {
  const std::vector<Difference> differences = differing_keys(comm, topic, ranks);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(differences.size(), kNamed); ++i)
    lines.push_back(describe(comm, topic, ranks, differences[i]));
  if (differences.size() > kNamed) lines.push_back(fmt::format("and {} more", differences.size() - kNamed));
  if (differences.empty()) {
    if (auto line = order_difference(comm, topic, ranks)) lines.push_back(std::move(*line));
  }
  return lines;
}

}  // namespace sluice
