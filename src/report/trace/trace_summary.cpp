#include "report/trace/trace_summary.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kWaitingForRanks = "waiting for ranks", kWaitingForDisk = "waiting for the disk",
                           kSmall = "small operations", kOther = "the rest of the step";

/// The kind of an operation by its name, a backward pass as its forward pass; in the order of the summary.
constexpr std::pair<std::string_view, std::string_view> kOperations[] = {
    {"linear", "products of projections"},
    {"experts", "experts"},
    {"loss", "head and loss"},
    {"attention", "attention"},
    {"delta rule", "attention"},
    {"convolution", "attention"},
    {"router", "router"},
    {"norm", "norms"},
    {"layer", kSmall},
    {"update", "optimizer"},
    {"gather", "exchange"},
    {"reduce", "exchange"},
};

std::string_view kind_of(const TraceRecord& record) {
  if (record.kind == trace::Kind::kWait)
    return record.name.starts_with("disk") || record.name == "files" ? kWaitingForDisk : kWaitingForRanks;
  constexpr std::string_view kBackward = " backward";
  std::string_view name = record.name;
  if (name.ends_with(kBackward)) name.remove_suffix(kBackward.size());
  const auto found = std::ranges::find(kOperations, name, [](const auto& entry) { return entry.first; });
  return found == std::end(kOperations) ? kOther : found->second;
}

/// Records of steps on the thread that computes, outer ones before those inside them.
std::vector<const TraceRecord*> nested_records(const TraceFile& rank) {
  std::vector<const TraceRecord*> nested;
  for (const TraceRecord& record : rank.records)
    if (record.thread == 0 && (record.kind == trace::Kind::kStep || record.kind == trace::Kind::kOperation ||
                               record.kind == trace::Kind::kWait))
      nested.push_back(&record);
  std::ranges::stable_sort(nested, {}, [](const TraceRecord* record) {
    return std::tuple(record->begin_ns, -record->end_ns, record->kind);
  });
  return nested;
}

/// Sums of seconds by kind.
class Shares {
 public:
  Shares() {
    for (const auto& [name, kind] : kOperations) add(kind, 0);
    for (const std::string_view kind : {kWaitingForRanks, kWaitingForDisk, kOther}) add(kind, 0);
  }
  void add(std::string_view kind, double seconds) {
    auto found = std::ranges::find(shares_, kind, &TraceShare::kind);
    if (found == shares_.end()) found = shares_.insert(found, {std::string(kind), 0});
    found->seconds += seconds;
  }
  [[nodiscard]] std::vector<TraceShare> take() { return std::move(shares_); }

 private:
  std::vector<TraceShare> shares_;
};

}  // namespace

std::vector<TraceShare> trace_shares(const TraceFile& rank) {
  Shares shares;
  std::vector<const TraceRecord*> open;
  for (const TraceRecord* record : nested_records(rank)) {
    while (!open.empty() && open.back()->end_ns <= record->begin_ns) open.pop_back();
    if (open.empty() && record->kind != trace::Kind::kStep) continue;
    const double seconds = static_cast<double>(record->end_ns - record->begin_ns) * 1e-9;
    shares.add(kind_of(*record), seconds);
    if (!open.empty()) shares.add(kind_of(*open.back()), -seconds);
    open.push_back(record);
  }
  return shares.take();
}

}  // namespace sluice
