#include "verify/verify_shards.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/ranks_text.hpp"
#include "comm/run_together.hpp"
#include "verify/arena_digest.hpp"
#include "verify/checkpoint_digest.hpp"
#include "verify/content_parts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// Element type in which a tensor is compared: the file's if memory holds its values exactly, else that of
/// memory.
DType compared_type(DType file, DType held) { return held == DType::kFloat32 ? file : held; }

/// Element types to which a file's elements are converted before they are compared.
std::vector<DType> way_of(DType file, DType held) {
  if (file == held) return {};
  return held == DType::kFloat32 ? std::vector{held, file} : std::vector{held};
}

/// Whether every rank holds a tensor whole.
bool is_copied(const UnitLayouts& layouts, int tensor) { return layouts.unit_of(tensor) < 0; }

/// Element type in which ranks hold a tensor.
DType held_type(const ShardArena& weights, int tensor) {
  return is_copied(weights.plan().layouts(), tensor) ? DType::kFloat32 : weights.dtype();
}

/// An entry that this rank reads, and its parts in the order of content_parts().
struct ReadEntry {
  const CheckpointEntry& entry;
  std::span<const MatchedEntry> ranges;
  std::span<PlacedPart> parts;
};

/// Calls visit(ranges) with the ranges of each entry, in the order of the files: first those in shards, then those
/// that every rank holds whole.
template <class Visit>
void for_each_entry(const CheckpointMatch& match, Visit visit) {
  for (const std::vector<MatchedEntry>* entries : {&match.entries, &match.buffers})
    for (auto first = entries->begin(); first != entries->end();) {
      const auto last = std::find_if(
          first, entries->end(), [&](const MatchedEntry& matched) { return matched.entry != first->entry; });
      visit(std::span<const MatchedEntry>(first, last));
      first = last;
    }
}

/// Parts of all entries, in the order of for_each_entry().
std::vector<PlacedPart> list_parts(const ParameterManifest& manifest, const ShardArena& weights,
                                   const CheckpointIndex& index, const CheckpointMatch& match) {
  std::vector<PlacedPart> parts;
  for_each_entry(match, [&](std::span<const MatchedEntry> ranges) {
    const int entry = ranges.front().entry;
    const DType file = index.entries[static_cast<std::size_t>(entry)].dtype;
    for (const ContentPart& part : content_parts(manifest, ranges))
      parts.push_back({entry,
                       part.tensor,
                       {part.begin, part.begin + part.count()},
                       compared_type(file, held_type(weights, part.tensor)),
                       {},
                       {},
                       0});
  });
  return parts;
}

/// Synchronises ranks that read unequal amounts, after every `bytes`, so that no collective waits for longer
/// than one round of reading, and the deadline need not grow with the checkpoint. Every call is collective
/// over the communicator.
class Rounds {
 public:
  Rounds(Communicator& comm, std::int64_t bytes) : comm_(comm), bytes_(bytes), next_(bytes) {}

  /// Adds bytes that this rank has read.
  void reach(std::int64_t done) {
    for (; done >= next_; next_ += bytes_) static_cast<void>(meet(false));
  }

  /// Says that this rank has nothing more to read; returns when no rank has.
  void finish() {
    while (!meet(true)) {
    }
  }

 private:
  /// Meets the other ranks; returns whether all ranks have finished.
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
  ShardVerifier(const RankSets& sets, const ShardArena& weights, const ParameterManifest& manifest,
                const CheckpointIndex& index, const CheckpointMatch& match,
                const std::filesystem::path& directory)
      : sets_(sets),
        weights_(weights),
        manifest_(manifest),
        index_(index),
        match_(match),
        directory_(directory),
        parts_(list_parts(manifest, weights, index, match)) {}

  /// Collective over the set, or all ranks if the first set passes on what it reads. Digests the files; each entry is
  /// read by one rank.
  void digest_files(const VerifyOptions& options) {
    Communicator& comm = options.passes_on ? sets_.all() : sets_.own();
    const std::vector<ReadEntry> own = entries_to_read(comm, options.readers);
    std::int64_t total = 0;
    for (const ReadEntry& read : own) total += index_.bytes_of(read.entry, element_count(read.entry.shape));
    PartReader reader(index_, directory_);
    Rounds rounds(comm, options.round_bytes);
    std::int64_t done = 0;
    for (const ReadEntry& read : own) {
      const std::vector<DType> way =
          way_of(read.entry.dtype, held_type(weights_, read.ranges.front().tensor));
      const std::vector<ContentPart> parts = content_parts(manifest_, read.ranges);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const PartReader::Result result = reader.digest(read.entry, parts[i], way);
        read.parts[i].in_file = result.digest;
        report_.non_finite += result.non_finite;
        done += index_.bytes_of(read.entry, parts[i].count());
        if (options.progress) options.progress(done, total);
        rounds.reach(done);
      }
    }
    rounds.finish();
    if (options.passes_on) pass_on();
  }

  /// Collective over the set. Digests its arenas, and every rank's copies of what all hold whole.
  void digest_arenas() {
    sluice::digest_arenas(sets_.own(), weights_, std::span(parts_).first(first_copy()));
    digest_copies(weights_, copies());
  }

  /// Collective over all ranks. Compares the digests of files and arenas.
  VerifyReport compare() {
    sum_of_set();
    sets_.own().all_reduce_sum(std::span(&report_.non_finite, 1));
    std::vector<std::string> differences;
    for (const ReadEntry& read : entries()) {
      const std::vector<ContentPart> parts = content_parts(manifest_, read.ranges);
      report_.read_bytes += index_.stored_bytes(read.entry);
      for (std::size_t i = 0; i < parts.size(); ++i) take(read.entry, parts[i], read.parts[i], differences);
    }
    const auto expect_none = [&] {
      if (!differences.empty()) refuse(differences);
    };
    if (sets_.counterparts() == nullptr)
      expect_none();
    else
      run_together(*sets_.counterparts(), expect_none);
    return report_;
  }

 private:
  /// Collective over the counterparts. Gives each rank what its counterpart in the first set has read.
  void pass_on() {
    sum_over_ranks(*sets_.counterparts(), parts_);
    sets_.counterparts()->all_reduce_sum(std::span(&report_.non_finite, 1));
  }

  /// Number of the first part that every rank holds whole.
  [[nodiscard]] std::size_t first_copy() const {
    const UnitLayouts& layouts = weights_.plan().layouts();
    const auto first =
        std::ranges::find_if(parts_, [&](const PlacedPart& part) { return is_copied(layouts, part.tensor); });
    return static_cast<std::size_t>(first - parts_.begin());
  }
  std::span<PlacedPart> copies() { return std::span(parts_).subspan(first_copy()); }

  /// Collective over the set. Sums the digests of its ranks; of copies, those of the first rank stand for all.
  void sum_of_set() {
    const std::span<PlacedPart> summed = copies();
    const std::vector<PlacedPart> own(summed.begin(), summed.end());
    if (sets_.own().rank() > 0)
      for (PlacedPart& part : summed) part.in_arena = {}, part.altered = 0;
    sum_over_ranks(sets_.own(), parts_);
    ByteWriter wrong;  // numbers of this rank's copies that differ from the files
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].in_arena != summed[i].in_file || own[i].altered > 0)
        wrong.number(static_cast<std::int64_t>(i));
    const std::vector<std::string> of_ranks = sets_.own().all_gather_text(wrong.bytes());
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      for (ByteReader in(of_ranks[rank]); !in.at_end();)
        wrong_copies_[&summed[static_cast<std::size_t>(in.number())]].push_back(first_rank() +
                                                                                static_cast<int>(rank));
  }

  [[nodiscard]] int first_rank() const { return sets_.number() * weights_.plan().world(); }

  [[nodiscard]] std::vector<ReadEntry> entries() {
    std::vector<ReadEntry> entries;
    auto first = parts_.begin();
    for_each_entry(match_, [&](std::span<const MatchedEntry> ranges) {
      const int number = ranges.front().entry;
      const auto last =
          std::find_if(first, parts_.end(), [&](const PlacedPart& part) { return part.entry != number; });
      entries.push_back({index_.entries[static_cast<std::size_t>(number)], ranges, {first, last}});
      first = last;
    });
    return entries;
  }

  /// Entries for this rank of `comm` to read: each reader gets an equal range of the files' bytes, and the entries
  /// whose middle lies in it.
  [[nodiscard]] std::vector<ReadEntry> entries_to_read(Communicator& comm, std::vector<int> readers) {
    if (readers.empty()) {
      readers.resize(static_cast<std::size_t>(comm.size()));
      std::iota(readers.begin(), readers.end(), 0);
    }
    const std::vector<ReadEntry> all = entries();
    std::int64_t total = 0, position = 0;
    for (const ReadEntry& read : all) total += read.entry.bytes;
    std::vector<ReadEntry> own;
    for (const ReadEntry& read : all) {
      const std::int64_t middle = position + read.entry.bytes / 2;
      position += read.entry.bytes;
      if (read.entry.bytes > 0 &&
          readers[static_cast<std::size_t>(middle * std::ssize(readers) / total)] == comm.rank())
        own.push_back(read);
    }
    return own;
  }

  void take(const CheckpointEntry& entry, const ContentPart& part, const PlacedPart& found,
            std::vector<std::string>& differences) {
    ++report_.tensors;
    report_.content +=
        PublishedDigest{part.name, found.dtype, part.shape, found.in_arena, 0, found.entry}.identity();
    const auto wrong = wrong_copies_.find(&found);
    const bool is_wrong_copy = wrong != wrong_copies_.end();
    if (found.in_arena == found.in_file && found.altered == 0 && !is_wrong_copy) return;
    const std::string& file = index_.files[static_cast<std::size_t>(entry.file)].name;
    const std::string ranks = is_wrong_copy ? "in the copies of " + ranks_text(wrong->second)
                                            : "owned by " + ranks_text(owners(found));
    differences.push_back(fmt::format("{} ({}), {}", printable(part.name), file, ranks));
  }

  /// Ranks of this set that own elements of a part, numbered among all ranks.
  [[nodiscard]] std::vector<int> owners(const PlacedPart& part) const {
    std::vector<int> ranks;
    weights_.plan().owned_runs(part.tensor, part.elements, [&](int rank, const ShardPlan::OwnedRun&) {
      ranks.push_back(first_rank() + rank);
    });
    return ranks;
  }

  [[noreturn]] void refuse(const std::vector<std::string>& differences) const {
    fail({ExitCode::kInternal, "verify.differs"},
         "{} of {} tensors in memory are not what {} holds:{}\n  Likely cause: the files were changed while "
         "they were loaded, or memory, a disk or the network is faulty.",
         differences.size(), report_.tensors, directory_.string(), lines_of_some(differences, 20));
  }

  const RankSets& sets_;
  const ShardArena& weights_;
  const ParameterManifest& manifest_;
  const CheckpointIndex& index_;
  const CheckpointMatch& match_;
  const std::filesystem::path& directory_;
  std::vector<PlacedPart> parts_;
  /// Ranks of this set whose copies of a part differ from the files.
  std::map<const PlacedPart*, std::vector<int>> wrong_copies_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify_shards(const RankSets& sets, const ShardArena& weights, const ParameterManifest& manifest,
                           const CheckpointIndex& index, const CheckpointMatch& match,
                           const std::filesystem::path& directory, const VerifyOptions& options) {
  SLUICE_ASSERT(sets.own().size() == weights.plan().world() && sets.own().rank() == weights.rank(),
                "an arena of rank {} of {}", weights.rank(), weights.plan().world());
  ShardVerifier verifier(sets, weights, manifest, index, match, directory);
  verifier.digest_files(options);
  verifier.digest_arenas();
  return verifier.compare();
}

}  // namespace sluice
