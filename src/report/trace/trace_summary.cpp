#include "report/trace/trace_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// Kinds of work in the order of the summary.
enum class Work : std::uint8_t {
  kProjections,
  kExpertProducts,
  kExperts,
  kHead,
  kAttention,
  kScan,
  kRouter,
  kNorms,
  kSmall,
  kChoice,
  kOptimizer,
  kExchange,
  kWaitingForRanks,
  kWaitingForDisk,
  kRest
};

constexpr std::string_view kWorkNames[] = {"products of projections",
                                           "products of experts",
                                           "loops of experts",
                                           "head and loss",
                                           "attention",
                                           "scan",
                                           "router",
                                           "norms",
                                           "small operations",
                                           "choice of tokens",
                                           "optimizer",
                                           "exchange",
                                           "waiting for ranks",
                                           "waiting for the disk",
                                           "the rest"};

/// The kind of an operation by its name, a backward pass as its forward pass.
constexpr std::pair<std::string_view, Work> kOperations[] = {
    {"linear", Work::kProjections},
    {"expert product", Work::kExpertProducts},
    {"experts", Work::kExperts},
    {"loss", Work::kHead},
    {"logits", Work::kHead},
    {"attention", Work::kAttention},
    {"delta rule", Work::kScan},
    {"convolution", Work::kAttention},
    {"scan", Work::kScan},
    {"router", Work::kRouter},
    {"norm", Work::kNorms},
    {"layer", Work::kSmall},
    {"choice of tokens", Work::kChoice},
    {"update", Work::kOptimizer},
    {"gather", Work::kExchange},
    {"reduce", Work::kExchange},
};

Work work_of(const TraceRecord& record) {
  if (record.kind == trace::Kind::kWait)
    return record.name.starts_with("disk") || record.name == "files" ? Work::kWaitingForDisk
                                                                     : Work::kWaitingForRanks;
  constexpr std::string_view kBackward = " backward";
  std::string_view name = record.name;
  if (name.ends_with(kBackward)) name.remove_suffix(kBackward.size());
  const auto found = std::ranges::find(kOperations, name, [](const auto& entry) { return entry.first; });
  return found == std::end(kOperations) ? Work::kRest : found->second;
}

/// The kind of a record, with the rows and columns of the weights where it is a product.
std::pair<Work, std::string> kind_of(const TraceRecord& record) {
  const Work work = work_of(record);
  const std::string_view name = kWorkNames[static_cast<std::size_t>(work)];
  return {work, record.matrix.rows == 0
                    ? std::string(name)
                    : fmt::format("{}, {} x {}", name, record.matrix.rows, record.matrix.columns)};
}

/// Records on the thread that computes, outer ones before those inside them.
std::vector<const TraceRecord*> nested_records(const TraceFile& rank) {
  using trace::Kind;
  constexpr std::array kNested{Kind::kStep, Kind::kPass, Kind::kOperation, Kind::kWait};
  std::vector<const TraceRecord*> nested;
  for (const TraceRecord& record : rank.records)
    if (record.thread == 0 && std::ranges::find(kNested, record.kind) != kNested.end())
      nested.push_back(&record);
  std::ranges::stable_sort(nested, {}, [](const TraceRecord* record) {
    return std::tuple(record->begin_ns, -record->end_ns, record->kind);
  });
  return nested;
}

/// Calls add(record, seconds) with the time of each record within a record of kind `whole`, that of the
/// records inside it taken off. Returns the number of records of kind `whole`.
template <class Add>
std::int64_t for_each_inside(const TraceFile& rank, trace::Kind whole, const Add& add) {
  std::vector<const TraceRecord*> open;
  std::int64_t count = 0;
  for (const TraceRecord* record : nested_records(rank)) {
    while (!open.empty() && open.back()->end_ns <= record->begin_ns) open.pop_back();
    if (open.empty() && record->kind != whole) continue;
    if (record->kind == whole) ++count;
    const double seconds = static_cast<double>(record->end_ns - record->begin_ns) * 1e-9;
    add(*record, seconds);
    if (!open.empty()) add(*open.back(), -seconds);
    open.push_back(record);
  }
  return count;
}

}  // namespace

TraceSummary summarize(std::span<const TraceFile> ranks, trace::Kind whole) {
  TraceSummary summary;
  std::map<std::pair<Work, std::string>, std::vector<double>> sums;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    summary.count = for_each_inside(ranks[rank], whole, [&](const TraceRecord& record, double seconds) {
      std::vector<double>& of_kind = sums[kind_of(record)];
      of_kind.resize(ranks.size());
      of_kind[rank] += seconds;
    });
  for (auto& [kind, seconds] : sums) summary.shares.push_back({kind.second, std::move(seconds)});
  return summary;
}

}  // namespace sluice
