#include "checkpoint/restore.hpp"

#include "base/boxes/coverage.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "base/text.hpp"
#include "checkpoint/block_stream.hpp"
#include "comm/run_together.hpp"
#include "device/copy.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kReadRoundBytes = 256 * kMiB;

/// An entry of a checkpoint, with its file.
struct FiledEntry {
  int file = 0;
  const SavedEntry* entry = nullptr;
};

/// Names of a tensor and of one of its arrays.
using ArrayName = std::pair<std::string_view, std::string_view>;

/// The entries of each array, in the order of its numbers.
std::map<ArrayName, std::vector<FiledEntry>> entries_of(const SavedStep& step) {
  std::map<ArrayName, std::vector<FiledEntry>> entries;
  for (std::size_t file = 0; file < step.files.size(); ++file)
    for (const SavedEntry& entry : step.files[file].entries)
      entries[{entry.tensor, entry.array}].push_back({static_cast<int>(file), &entry});
  for (auto& [name, list] : entries)
    std::ranges::sort(list, {}, [](const FiledEntry& filed) { return filed.entry->numbers.begin; });
  return entries;
}

/// Plans the copies of one span after the other.
class Planner {
 public:
  Planner(const SavedStep& step, const std::filesystem::path& directory, const ParameterManifest& manifest)
      : directory_(directory), manifest_(manifest), entries_(entries_of(step)) {
    for (const auto& [name, list] : entries_) {
      Coverage held;
      for (const FiledEntry& filed : list) held.add(0, filed.entry->numbers);
      for (const Coverage::Fault& fault : held.faults(std::array{Coverage::Whole()}))
        if (!fault.is_gap)
          fail({ExitCode::kBadData, "checkpoint.damaged"}, "{} holds number {} of {} of {} twice",
               directory.string(), fault.elements.begin, name.second, printable(name.first));
    }
  }

  void add(const StateSpan& span) {
    const std::string& tensor = manifest_[span.tensor].name;
    const auto found = entries_.find({tensor, span.array});
    std::int64_t at = span.numbers.begin;
    if (found != entries_.end()) {
      const std::vector<FiledEntry>& list = found->second;
      auto filed =
          std::ranges::upper_bound(list, at, {}, [](const FiledEntry& s) { return s.entry->numbers.begin; });
      if (filed != list.begin()) --filed;
      for (; at < span.numbers.end && filed != list.end(); ++filed) at = add_part(span, *filed, at);
    }
    if (at < span.numbers.end)
      fail({ExitCode::kBadData, "checkpoint.damaged"}, "{} does not hold {} of {} from number {} on",
           directory_.string(), span.array, tensor, at);
  }

  std::vector<RestoreCopy> done() {
    std::ranges::sort(copies_, {},
                      [](const RestoreCopy& copy) { return std::tuple(copy.file, copy.offset); });
    return std::move(copies_);
  }

 private:
  /// Copies the part of a span from number `at` on that an entry holds; returns the first number after it.
  std::int64_t add_part(const StateSpan& span, const FiledEntry& filed, std::int64_t at) {
    const SavedEntry& entry = *filed.entry;
    if (entry.numbers.begin > at || entry.numbers.end <= at) return at;
    if (entry.dtype != span.dtype)
      fail({ExitCode::kBadData, "checkpoint.damaged"}, "{} holds {} of {} in {}, expected {}",
           directory_.string(), entry.array, entry.tensor, name_of(entry.dtype), name_of(span.dtype));
    const std::int64_t end = std::min(entry.numbers.end, span.numbers.end), size = size_of(span.dtype);
    copies_.push_back({filed.file, entry.offset + (at - entry.numbers.begin) * size, (end - at) * size,
                       span.data + (at - span.numbers.begin) * size});
    return end;
  }

  const std::filesystem::path& directory_;
  const ParameterManifest& manifest_;
  std::map<ArrayName, std::vector<FiledEntry>> entries_;
  std::vector<RestoreCopy> copies_;
};

/// The blocks that the copies need, in order.
std::vector<BlockPlace> blocks_of(std::span<const RestoreCopy> copies) {
  std::vector<BlockPlace> blocks;
  for (const RestoreCopy& copy : copies)
    for (std::int64_t block = copy.offset / kSavedBlockBytes;
         block * kSavedBlockBytes < copy.offset + copy.bytes; ++block)
      if (const BlockPlace place{copy.file, block}; blocks.empty() || blocks.back() != place)
        blocks.push_back(place);
  return blocks;
}

/// Carries out copies in order, some bytes at a time.
class Restorer {
 public:
  explicit Restorer(std::vector<RestoreCopy> copies) : copies_(std::move(copies)) {}

  /// Carries out copies; `read` returns the first byte of a block.
  template <class Read>
  void run(std::int64_t bytes, const Read& read) {
    while (bytes > 0 && next_ < copies_.size()) bytes -= copy_from(place(), read(place()));
  }

  /// Carries out all copies from a block, which must be the next one that copies need.
  void take(const BlockPlace& block, const std::byte* data) {
    while (next_ < copies_.size() && place() == block) copy_from(block, data);
  }

 private:
  [[nodiscard]] std::int64_t offset() const { return copies_[next_].offset + done_; }
  [[nodiscard]] BlockPlace place() const { return {copies_[next_].file, offset() / kSavedBlockBytes}; }

  /// Carries out the next copy's part in a block; returns its bytes.
  std::int64_t copy_from(const BlockPlace& block, const std::byte* data) {
    const RestoreCopy& copy = copies_[next_];
    const std::int64_t inside = offset() - block.block * kSavedBlockBytes;
    const std::int64_t count = std::min(copy.bytes - done_, kSavedBlockBytes - inside);
    copy_bytes(copy.to + done_, data + inside, count);
    done_ += count;
    if (done_ == copy.bytes) {
      ++next_;
      done_ = 0;
    }
    return count;
  }

  const std::vector<RestoreCopy> copies_;
  std::size_t next_ = 0;
  std::int64_t done_ = 0;  ///< bytes of the next copy that are done
};

std::int64_t bytes_of(std::span<const RestoreCopy> copies) {
  return std::accumulate(copies.begin(), copies.end(), std::int64_t{0},
                         [](std::int64_t sum, const RestoreCopy& copy) { return sum + copy.bytes; });
}

/// Collective over `comm`. Carries out copies from files that other ranks read; returns the bytes of the
/// blocks.
std::int64_t fetch(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                   const StepReaders& readers, std::vector<RestoreCopy> copies, double limit_seconds) {
  std::vector<WantedBlock> wanted;
  for (const BlockPlace& place : blocks_of(copies))
    wanted.push_back({place, readers.reader_of(place.file, comm.rank())});
  Restorer restorer(std::move(copies));
  fetch_blocks(comm, step, directory, wanted, limit_seconds,
               [&](const BlockPlace& place, const std::byte* data) { restorer.take(place, data); });
  return std::ssize(wanted) * kSavedBlockBytes;
}

}  // namespace

std::vector<RestoreCopy> plan_restore(const SavedStep& step, const std::filesystem::path& directory,
                                      const ParameterManifest& manifest, std::span<const StateSpan> state) {
  Planner planner(step, directory, manifest);
  for (const StateSpan& span : state) planner.add(span);
  return planner.done();
}

RestoreReport restore_step(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                           const ParameterManifest& manifest, std::span<const StateSpan> state,
                           double limit_seconds) {
  return restore_step(comm, step, directory, StepReaders(), manifest, state, limit_seconds);
}

RestoreReport restore_step(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                           const StepReaders& readers, const ParameterManifest& manifest,
                           std::span<const StateSpan> state, double limit_seconds) {
  const Stopwatch watch;
  std::vector<RestoreCopy> copies, fetched;
  run_together(comm, [&] { copies = plan_restore(step, directory, manifest, state); });
  RestoreReport report{.bytes = bytes_of(copies)};
  const auto is_fetched = [&](const RestoreCopy& copy) {
    return readers.reader_of(copy.file, comm.rank()) != comm.rank();
  };
  std::ranges::copy_if(copies, std::back_inserter(fetched), is_fetched);
  std::erase_if(copies, is_fetched);
  report.fetched_bytes = fetch(comm, step, directory, readers, std::move(fetched), limit_seconds);

  std::int64_t rounds = divide_up(bytes_of(copies), kReadRoundBytes);
  comm.all_reduce_max(std::span(&rounds, 1));
  std::optional<BlockStream> blocks;
  run_together(comm, [&] { blocks.emplace(step, directory, blocks_of(copies), comm.rank(), limit_seconds); });
  Restorer restorer(std::move(copies));
  const auto read = [&](const BlockPlace& place) { return blocks->block(place); };
  for (; rounds > 0; --rounds) run_together(comm, [&] { restorer.run(kReadRoundBytes, read); });
  report.seconds = watch.seconds();
  return report;
}

}  // namespace sluice
