#include "weights/checkpoint_match.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

namespace sluice {
namespace {

/// Compares an index with a manifest, and collects the differences by kind.
class IndexMatcher {
 public:
  IndexMatcher(const CheckpointIndex& index, const KeyMap& keys, DType arena)
      : index_(index), keys_(keys), arena_(arena) {}

  CheckpointMatch run() {
    for (int i = 0; i < static_cast<int>(index_.entries.size()); ++i) take(i);
    for (const AbsentTensor& tensor : index_.absent)
      if (std::holds_alternative<KeyTarget>(keys_.resolve(tensor.name)))
        absent_.lines.push_back(fmt::format("{} ({})", printable(tensor.name), tensor.file));
    find_gaps_and_overlaps();
    throw_if_different();
    set_buffers_apart(match_, keys_.manifest());
    return std::move(match_);
  }

 private:
  struct Difference {
    std::string_view title;
    std::vector<std::string> lines;
  };

  void take(int i) {
    const CheckpointEntry& entry = index_.entries[static_cast<std::size_t>(i)];
    const auto target = keys_.resolve(entry.name, index_.encoding_of(entry) != nullptr);
    if (const auto* ignored = std::get_if<IgnoredKey>(&target)) {
      CheckpointMatch::Ignored& sum = match_.ignored[ignored->reason];
      ++sum.tensors;
      sum.bytes += entry.bytes;
      sum.is_carried = !ignored->redundant;
    } else if (const auto* key = std::get_if<KeyTarget>(&target)) {
      take_target(i, entry, *key);
    } else {
      unexpected_.lines.push_back(fmt::format("{} {}", described(i), shape_text(entry.shape)));
    }
  }

  void take_target(int i, const CheckpointEntry& entry, const KeyTarget& key) {
    if (entry.shape != key.shape)
      misshapen_.lines.push_back(
          fmt::format("{} is {}, expected {}", described(i), shape_text(entry.shape), shape_text(key.shape)));
    if (!is_convertible(entry.dtype, arena_))
      unconvertible_.lines.push_back(fmt::format("{} is {}, expected bfloat16, float16, float32 or float64",
                                                 described(i), name_of(entry.dtype)));
    const TensorInfo& tensor = keys_.manifest()[key.tensor()];
    if (tensor.role == Role::kExpert && key.shape.size() == tensor.shape.size())
      match_.experts = ExpertLayout::kFused;
    // A tensor of the wrong shape still stands for its place: it is not missing as well.
    const std::vector<MatchedEntry> ranges = ranges_of(i, key);
    match_.entries.insert(match_.entries.end(), ranges.begin(), ranges.end());
  }

  void find_gaps_and_overlaps() {
    for (const Coverage::Fault& fault :
         faults_of(match_.entries, keys_.manifest(), keys_.manifest().checkpoint_tensors()))
      if (!fault.is_gap)
        twice_.lines.push_back(fmt::format("{} repeats elements of {} that {} holds", described(fault.owner),
                                           keys_.manifest()[fault.place].name, described(fault.other)));
      else if (incomplete_.empty() || incomplete_.back() != fault.place)
        incomplete_.push_back(fault.place);
    if (incomplete_.empty()) return;
    std::vector<MatchedEntry> sorted = match_.entries;
    std::ranges::stable_sort(sorted, {}, &MatchedEntry::tensor);
    name_missing(sorted);
  }

  /// The entries of a tensor in `sorted`, which is sorted by tensor.
  static std::span<const MatchedEntry> entries_of(int tensor, const std::vector<MatchedEntry>& sorted) {
    return {std::ranges::lower_bound(sorted, tensor, {}, &MatchedEntry::tensor),
            std::ranges::upper_bound(sorted, tensor, {}, &MatchedEntry::tensor)};
  }

  /// Names missing tensors as the checkpoint would have published them.
  void name_missing(const std::vector<MatchedEntry>& sorted) {
    std::vector<int> unnamed = incomplete_;
    for (const PublishedTensor& published : keys_.published(match_.experts)) {
      const KeyTarget& key = published.target;
      const auto is_incomplete = [&](const TensorRange& range) {
        return std::ranges::binary_search(incomplete_, range.tensor);
      };
      const auto is_found = [&](const TensorRange& range) {
        return std::ranges::any_of(entries_of(range.tensor, sorted), [&](const MatchedEntry& m) {
          return m.begin < range.end() && range.begin < m.begin + m.count;
        });
      };
      if (std::ranges::any_of(key.ranges, is_found) || std::ranges::none_of(key.ranges, is_incomplete))
        continue;
      missing_.lines.push_back(fmt::format("{} {}", published.name, shape_text(key.shape)));
      for (const TensorRange& range : key.ranges) std::erase(unnamed, range.tensor);
    }
    for (const int tensor : unnamed) name_partly_missing(tensor, sorted);
  }

  /// Names the missing part of a fused tensor, such as gates without their ups.
  void name_partly_missing(int tensor, const std::vector<MatchedEntry>& sorted) {
    std::int64_t held = 0;
    for (const MatchedEntry& m : entries_of(tensor, sorted)) held += m.count;
    const TensorInfo& info = keys_.manifest()[tensor];
    missing_.lines.push_back(fmt::format("part of {} {}: {} of {} elements are there", info.name,
                                         shape_text(info.shape), held, info.element_count()));
  }

  void throw_if_different() const {
    std::string text;
    for (const Difference* kind :
         {&missing_, &absent_, &unexpected_, &misshapen_, &unconvertible_, &twice_}) {
      if (kind->lines.empty()) continue;
      text +=
          fmt::format("\n  {} ({}):{}", kind->title, kind->lines.size(), lines_of_some(kind->lines, kShown));
    }
    if (text.empty()) return;
    fail({ExitCode::kBadData, "weights.mismatch"},
         "{}: the checkpoint's tensors are not those that config.json describes:{}\n  Likely cause: "
         "config.json belongs to another checkpoint, or the download is incomplete.",
         index_.directory, text);
  }

  /// Text that names an entry: "name (file)".
  [[nodiscard]] std::string described(int i) const {
    const CheckpointEntry& entry = index_.entries[static_cast<std::size_t>(i)];
    return fmt::format("{} ({})", printable(entry.name),
                       index_.files[static_cast<std::size_t>(entry.file)].name);
  }

  static constexpr std::size_t kShown = 100;  ///< most lines about one kind of problem
  const CheckpointIndex& index_;
  const KeyMap& keys_;
  DType arena_;
  CheckpointMatch match_;
  std::vector<int> incomplete_;  ///< indices of incomplete tensors, ascending
  Difference missing_{"missing", {}};
  Difference absent_{"not in the file that the index names", {}};
  Difference unexpected_{"unexpected", {}};
  Difference misshapen_{"of another shape", {}};
  Difference unconvertible_{"of an element type that cannot be trained", {}};
  Difference twice_{"there twice", {}};
};

}  // namespace

std::vector<MatchedEntry> ranges_of(int entry, const KeyTarget& target) {
  std::vector<MatchedEntry> ranges;
  std::int64_t begin = 0;
  for (const TensorRange& range : target.ranges)
    ranges.push_back({entry, range.tensor, range.begin, range.count,
                      std::exchange(begin, begin + range.count), target.is_transposed});
  return ranges;
}

std::vector<Coverage::Fault> faults_of(std::span<const MatchedEntry> entries,
                                       const ParameterManifest& manifest, std::span<const int> tensors) {
  Coverage held;
  for (const MatchedEntry& m : entries) held.add(m.tensor, Range{m.begin, m.begin + m.count}, m.entry);
  std::vector<Coverage::Whole> whole;
  for (const int tensor : tensors) whole.push_back({tensor, manifest[tensor].element_count()});
  std::ranges::sort(whole, {}, &Coverage::Whole::place);
  return held.faults(whole);
}

void set_buffers_apart(CheckpointMatch& match, const ParameterManifest& manifest) {
  const auto is_parameter = [&](const MatchedEntry& entry) {
    return manifest[entry.tensor].kind == TensorKind::kParameter;
  };
  const auto buffers = std::stable_partition(match.entries.begin(), match.entries.end(), is_parameter);
  match.buffers.assign(buffers, match.entries.end());
  match.entries.erase(buffers, match.entries.end());
}

CheckpointMatch match_checkpoint(const CheckpointIndex& index, const KeyMap& keys, DType arena) {
  return IndexMatcher(index, keys, arena).run();
}

std::vector<std::string> ignored_text(const CheckpointMatch& match) {
  std::vector<std::string> lines;
  for (const auto& [reason, sum] : match.ignored)
    lines.push_back(fmt::format("ignored {} ({}): {}{}", counted(sum.tensors, "tensor"),
                                format_bytes(sum.bytes), reason,
                                sum.is_carried ? ", which is not trained; an export carries it along" : ""));
  return lines;
}

}  // namespace sluice
