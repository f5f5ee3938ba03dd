#include "load/in_files/unit_reads.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "io/file.hpp"

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

constexpr std::int64_t kBlock = InputFile::kBlockBytes;
constexpr std::int64_t kNear = 64 * kKiB;

/// Bytes of a file that are the codes of one run.
struct CodeExtent {
  int file = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t to = 0;  ///< byte of the shard at which the codes go
  int run = 0;
};

/// The checkpoint entries of each tensor, ordered by their first elements.
using EntriesOfTensors = std::map<int, std::vector<const MatchedEntry*>>;

EntriesOfTensors entries_of_tensors(const CheckpointMatch& match) {
  EntriesOfTensors all;
  for (const MatchedEntry& entry : match.entries) all[entry.tensor].push_back(&entry);
  for (auto& [tensor, entries] : all) std::ranges::sort(entries, {}, &MatchedEntry::begin);
  return all;
}

CodeExtent extent_of(const StoredLayout::OwnRun& run, int number, const CheckpointIndex& index,
                     const EntriesOfTensors& entries) {
  const std::vector<const MatchedEntry*>& of_tensor = entries.at(run.tensor);
  const auto next = std::ranges::upper_bound(of_tensor, run.tensor_begin, {}, &MatchedEntry::begin);
  SLUICE_ASSERT(next != of_tensor.begin(), "no file holds element {} of tensor {}", run.tensor_begin,
                run.tensor);
  const MatchedEntry& matched = **(next - 1);
  const std::int64_t inside = run.tensor_begin - matched.begin;
  SLUICE_ASSERT(inside + run.count <= matched.count,
                "elements {} to {} of tensor {} are not one range of a file", run.tensor_begin,
                run.tensor_begin + run.count, run.tensor);
  const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(matched.entry)];
  const std::int64_t begin = entry.begin + run.encoding->code_bytes(matched.entry_begin + inside);
  return {entry.file, begin, begin + run.encoding->code_bytes(run.count), run.codes, number};
}

/// Joins extents, in the order of the files, to reads.
std::vector<DirectRead> join(const std::vector<CodeExtent>& extents) {
  std::vector<DirectRead> reads;
  for (const CodeExtent& extent : extents)
    for (std::int64_t begin = extent.begin; begin < extent.end;) {
      const bool is_near = !reads.empty() && reads.back().file == extent.file &&
                           begin - (reads.back().offset + reads.back().bytes) < kNear &&
                           begin - reads.back().offset < kSourceReadBytes;
      if (!is_near) reads.push_back({extent.file, begin / kBlock * kBlock, 0, {}});
      DirectRead& read = reads.back();
      const std::int64_t end = std::min(extent.end, read.offset + kSourceReadBytes);
      read.copies.push_back(
          {begin - read.offset, extent.to + (begin - extent.begin), end - begin, extent.run});
      read.bytes = std::max(read.bytes, round_up(end, kBlock) - read.offset);
      begin = end;
    }
  return reads;
}

}  // namespace

std::int64_t UnitReads::read_bytes() const {
  std::int64_t bytes = 0;
  for (const DirectRead& read : reads) bytes += read.bytes;
  return bytes;
}

std::map<int, UnitReads> plan_unit_reads(const StoredLayout& layout, std::span<const int> units,
                                         const CheckpointIndex& index, const CheckpointMatch& match) {
  const EntriesOfTensors entries = entries_of_tensors(match);
  std::map<int, UnitReads> all;
  std::int64_t scales = 0;
  for (const int unit : units) {
    UnitReads& reads = all[unit];
    reads.runs = layout.own_runs(unit);
    reads.digests.resize(reads.runs.size());
    reads.scales_begin = scales;
    std::vector<CodeExtent> extents;
    for (int run = 0; run < std::ssize(reads.runs); ++run) {
      const StoredLayout::OwnRun& own = reads.runs[static_cast<std::size_t>(run)];
      extents.push_back(extent_of(own, run, index, entries));
      reads.scale_bytes += own.encoding->scale_bytes(own.scale_range());
    }
    scales += reads.scale_bytes;
    std::ranges::sort(extents, {},
                      [](const CodeExtent& extent) { return std::tuple(extent.file, extent.begin); });
    reads.reads = join(extents);
  }
  return all;
}

}  // namespace sluice
