#include "verify/verify_shards.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/ranks_text.hpp"
#include "verify/arena_digest.hpp"
#include "verify/checkpoint_digest.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace sluice {
namespace {

/// The file's type where the arena holds its values exactly, else the arena's.
DType compared_type(DType file, DType arena) { return arena == DType::kFloat32 ? file : arena; }

/// The types that a file's elements pass through before they are compared.
std::vector<DType> way_of(DType file, DType arena) {
  if (file == arena) return {};
  return arena == DType::kFloat32 ? std::vector{arena, file} : std::vector{arena};
}

/// Where a part of an entry lies in a unit's buffer. `ranges` are all that the entry fills, in its order.
std::vector<PlacedRun> runs_of(const FlatLayout& unit, std::span<const MatchedEntry> ranges,
                               const PerExpertPart& part) {
  std::vector<PlacedRun> runs;
  const std::int64_t end = part.begin + element_count(part.shape);
  for (const MatchedEntry& range : ranges) {
    std::int64_t at = std::max(part.begin, range.entry_begin);
    const std::int64_t count = std::min(end, range.entry_begin + range.count) - at;
    if (count <= 0) continue;
    FlatLayout::for_each_run(unit.placement_of(range.tensor), range.begin + at - range.entry_begin, count,
                             [&](const Run& run) {
                               runs.push_back({run.unit_begin, run.count, at - part.begin});
                               at += run.count;
                             });
  }
  return runs;
}

/// A part of an entry that is read and digested. Of a transposed entry each matrix is, in the manifest's order, to be compared
/// with the arena; and each of parts_of() once more as it lies in the file, for the digest of the content.
struct ReadPart {
  PerExpertPart part;
  bool is_compared = true;
  bool is_published = true;
  [[nodiscard]] bool is_transposed() const { return !is_published; }
};

/// In the order of the file, and a matrix before what lies in it.
std::vector<ReadPart> read_parts_of(const CheckpointEntry& entry, bool is_transposed) {
  std::vector<ReadPart> parts;
  if (is_transposed) {
    const std::vector<std::int64_t> matrix{entry.shape[1], entry.shape[2]};
    for (std::int64_t i = 0; i < entry.shape[0]; ++i)
      parts.push_back(
          {{fmt::format("expert {} of {}", i, plain_name(entry.name)), matrix, i * element_count(matrix)},
           true,
           false});
  }
  for (PerExpertPart& part : parts_of(entry)) parts.push_back({std::move(part), !is_transposed, true});
  std::ranges::stable_sort(parts, {}, [](const ReadPart& read) { return read.part.begin; });
  return parts;
}

/// Numbers of the entries that are transposed.
std::set<int> transposed_entries(const CheckpointMatch& match) {
  std::set<int> entries;
  for (const MatchedEntry& matched : match.entries)
    if (matched.is_transposed) entries.insert(matched.entry);
  return entries;
}

/// The read parts of all entries, in the order of the files; those that are not compared lie nowhere.
std::vector<PlacedPart> list_parts(const ShardPlan& plan, DType arena, const CheckpointIndex& index,
                                   const CheckpointMatch& match) {
  const UnitLayouts& layouts = plan.layouts();
  std::vector<PlacedPart> parts;
  for (auto first = match.entries.begin(); first != match.entries.end();) {
    const int number = first->entry;
    const auto last = std::find_if(first, match.entries.end(),
                                   [&](const MatchedEntry& matched) { return matched.entry != number; });
    const int unit = layouts.homes[static_cast<std::size_t>(first->tensor)].unit;
    const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(number)];
    for (const ReadPart& read : read_parts_of(entry, first->is_transposed))
      parts.push_back({number,
                       unit,
                       compared_type(entry.dtype, arena),
                       read.is_compared
                           ? runs_of(layouts.units[static_cast<std::size_t>(unit)], {first, last}, read.part)
                           : std::vector<PlacedRun>(),
                       element_count(read.part.shape),
                       {},
                       {},
                       0});
    first = last;
  }
  return parts;
}

/// Synchronises ranks with unequal amounts to read after every `bytes`, so that no collective waits for more
/// than one such round and the deadline need not grow with the checkpoint. Every call is collective.
class Rounds {
 public:
  Rounds(Communicator& comm, std::int64_t bytes) : comm_(comm), bytes_(bytes), next_(bytes) {}

  /// Adds bytes that this rank has read.
  void reach(std::int64_t done) {
    for (; done >= next_; next_ += bytes_) static_cast<void>(meet(false));
  }

  /// This rank has nothing more to read; returns when no rank has.
  void finish() {
    while (!meet(true)) {
    }
  }

 private:
  /// Whether all ranks have finished.
  bool meet(bool is_through) {
    std::int64_t busy = is_through ? 0 : 1;
    comm_.all_reduce_sum(std::span(&busy, 1));
    return busy == 0;
  }

  Communicator& comm_;
  std::int64_t bytes_;
  std::int64_t next_;
};

class ShardVerifier {
 public:
  ShardVerifier(Communicator& comm, const ShardArena& weights, const CheckpointIndex& index,
                const CheckpointMatch& match, const std::filesystem::path& directory)
      : comm_(comm),
        weights_(weights),
        index_(index),
        directory_(directory),
        transposed_(transposed_entries(match)),
        parts_(list_parts(weights.plan(), weights.dtype(), index, match)) {}

  /// Collective over the communicator. Each entry is read by one rank, into its parts there.
  void digest_files(const VerifyOptions& options) {
    const std::vector<std::span<PlacedPart>> own = entries_to_read(options.readers);
    std::int64_t total = 0;
    for (const std::span<PlacedPart> parts : own)
      for (const PlacedPart& part : parts) total += index_.bytes_of(entry_of(parts), part.count);
    PartReader reader(index_, directory_);
    Rounds rounds(comm_, options.round_bytes);
    std::int64_t done = 0;
    for (const std::span<PlacedPart> parts : own) {
      const CheckpointEntry& entry = entry_of(parts);
      const std::vector<ReadPart> read = read_parts(parts);
      const std::vector<DType> way = way_of(entry.dtype, weights_.dtype());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (read[i].is_transposed()) {
          parts[i].in_file = reader.digest_transposed(entry, read[i].part, way);
        } else {
          const auto result = reader.digest(entry, read[i].part, way);
          parts[i].in_file = result.digest;
          report_.non_finite += result.non_finite;
        }
        done += index_.bytes_of(entry, parts[i].count);
        if (options.progress) options.progress(done, total);
        rounds.reach(done);
      }
    }
    rounds.finish();
  }

  /// Collective over the communicator.
  void digest_arenas() { sluice::digest_arenas(comm_, weights_, parts_); }

  /// Collective over the communicator.
  VerifyReport compare() {
    sum_over_ranks(comm_, parts_);
    comm_.all_reduce_sum(std::span(&report_.non_finite, 1));
    std::vector<std::string> differences;
    for (const std::span<PlacedPart> parts : entries()) {
      const CheckpointEntry& entry = entry_of(parts);
      const std::vector<ReadPart> read = read_parts(parts);
      report_.read_bytes += index_.stored_bytes(entry);
      for (std::size_t i = 0; i < parts.size(); ++i) take(entry, read[i], parts[i], differences);
    }
    if (!differences.empty()) refuse(differences);
    return report_;
  }

 private:
  [[nodiscard]] const CheckpointEntry& entry_of(std::span<const PlacedPart> parts) const {
    return index_.entries[static_cast<std::size_t>(parts.front().entry)];
  }

  /// What the parts of an entry are, in the same order.
  [[nodiscard]] std::vector<ReadPart> read_parts(std::span<const PlacedPart> parts) const {
    return read_parts_of(entry_of(parts), transposed_.contains(parts.front().entry));
  }

  /// The parts of each entry, in the order of the files.
  [[nodiscard]] std::vector<std::span<PlacedPart>> entries() {
    std::vector<std::span<PlacedPart>> entries;
    for (auto first = parts_.begin(); first != parts_.end();) {
      const auto last = std::find_if(first, parts_.end(),
                                     [&](const PlacedPart& part) { return part.entry != first->entry; });
      entries.emplace_back(first, last);
      first = last;
    }
    return entries;
  }

  /// Each reader gets an equal range of the files' bytes, and the entries whose middle lies in it.
  [[nodiscard]] std::vector<std::span<PlacedPart>> entries_to_read(std::vector<int> readers) {
    if (readers.empty()) {
      readers.resize(static_cast<std::size_t>(comm_.size()));
      std::iota(readers.begin(), readers.end(), 0);
    }
    std::vector<std::span<PlacedPart>> own = entries();
    std::int64_t total = 0;
    for (const std::span<PlacedPart> parts : own) total += entry_of(parts).bytes;
    std::int64_t position = 0;
    std::erase_if(own, [&](const std::span<PlacedPart>& parts) {
      const std::int64_t bytes = entry_of(parts).bytes;
      const std::int64_t middle = position + bytes / 2;
      position += bytes;
      return bytes == 0 ||
             readers[static_cast<std::size_t>(middle * std::ssize(readers) / total)] != comm_.rank();
    });
    return own;
  }

  void take(const CheckpointEntry& entry, const ReadPart& read, const PlacedPart& part,
            std::vector<std::string>& differences) {
    const PerExpertPart& published = read.part;
    if (read.is_published) {
      ++report_.tensors;
      const Digest& digest = read.is_compared ? part.in_arena : part.in_file;
      report_.content +=
          PublishedDigest{published.name, part.dtype, published.shape, digest, 0, part.entry}.identity();
    }
    if (!read.is_compared || (part.in_arena == part.in_file && part.altered == 0)) return;
    const std::string& file = index_.files[static_cast<std::size_t>(entry.file)].name;
    differences.push_back(
        fmt::format("{} ({}), owned by {}", printable(published.name), file, ranks_text(owners(part))));
  }

  [[nodiscard]] std::vector<int> owners(const PlacedPart& part) const {
    std::vector<int> ranks;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const Range owned = weights_.plan().owned(part.unit, rank);
      const auto is_owned = [&](const PlacedRun& run) {
        return owned.begin < run.begin + run.count && run.begin < owned.end;
      };
      if (std::ranges::any_of(part.runs, is_owned)) ranks.push_back(rank);
    }
    return ranks;
  }

  [[noreturn]] void refuse(const std::vector<std::string>& differences) const {
    fail(ExitCode::kInternal,
         "{} of {} tensors in memory are not what {} holds:{}\n  Likely cause: the files were changed while "
         "they were loaded, or memory, a disk or the network is faulty.",
         differences.size(), report_.tensors, directory_.string(), lines_of_some(differences, 20));
  }

  Communicator& comm_;
  const ShardArena& weights_;
  const CheckpointIndex& index_;
  const std::filesystem::path& directory_;
  std::set<int> transposed_;
  std::vector<PlacedPart> parts_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify_shards(Communicator& comm, const ShardArena& weights, const CheckpointIndex& index,
                           const CheckpointMatch& match, const std::filesystem::path& directory,
                           const VerifyOptions& options) {
  SLUICE_ASSERT(comm.size() == weights.plan().world() && comm.rank() == weights.rank(),
                "an arena of rank {} of {}", weights.rank(), weights.plan().world());
  ShardVerifier verifier(comm, weights, index, match, directory);
  verifier.digest_files(options);
  verifier.digest_arenas();
  return verifier.compare();
}

}  // namespace sluice
