#include "load/load_plan.hpp"

#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "load/read_cutter.hpp"

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

/// Joins pieces that follow each other on both sides.
class PieceMerger {
 public:
  explicit PieceMerger(const std::function<void(const Piece&)>& visit) : visit_(visit) {}
  void add(const Piece& piece) {
    if (last_.count > 0 && piece.rank == last_.rank && piece.dtype == last_.dtype &&
        piece.encoding == last_.encoding && piece.source == last_.source + last_.bytes() &&
        piece.target == last_.target + last_.count &&
        (piece.encoding == nullptr || piece.element == last_.element + last_.count)) {
      last_.count += piece.count;
      return;
    }
    flush();
    last_ = piece;
  }
  void flush() {
    if (last_.count > 0) {
      last_.scale_source = scale_bytes_;
      scale_bytes_ += last_.scale_bytes();
      visit_(last_);
    }
    last_.count = 0;
  }

 private:
  const std::function<void(const Piece&)>& visit_;
  Piece last_;
  std::int64_t scale_bytes_ = 0;  ///< of the pieces that have been visited
};

/// Elements [begin, end) of a rank's arena.
struct Interval {
  int rank = 0;
  Range range;
};

/// Sorted, with neighbours that touch joined. Error(kInternal) where two overlap.
std::vector<Interval> joined(std::vector<Interval> intervals, std::string_view what) {
  std::ranges::sort(intervals, {}, [](const Interval& i) { return std::tuple(i.rank, i.range.begin); });
  std::vector<Interval> out;
  for (const Interval& next : intervals) {
    if (out.empty() || out.back().rank != next.rank || out.back().range.end < next.range.begin) {
      out.push_back(next);
      continue;
    }
    SLUICE_ASSERT(out.back().range.end == next.range.begin,
                  "{}: element {} of rank {}'s arena is written twice", what, next.range.begin, next.rank);
    out.back().range.end = next.range.end;
  }
  return out;
}

/// Whether a rank is among those that are asked about: one, or all.
bool is_asked(std::optional<int> asked, int rank) { return !asked || *asked == rank; }

/// The elements of the arenas of `asked` that belong to some tensor of a checkpoint.
std::vector<Interval> expected_intervals(const ShardPlan& shards, std::optional<int> asked) {
  std::vector<Interval> intervals;
  for (const FlatLayout& unit : shards.layouts().units)
    for (const Placement& placement : unit.placements()) {
      if (placement.block_elements == 0 || placement.is_adapter) continue;
      shards.owned_runs(placement.tensor, {0, placement.blocks * placement.block_elements},
                        [&](int rank, const ShardPlan::OwnedRun& run) {
                          if (is_asked(asked, rank))
                            intervals.push_back({rank, {run.arena_begin, run.arena_begin + run.count}});
                        });
    }
  return intervals;
}

}  // namespace

LoadPlan::LoadPlan(const CheckpointIndex& index, const CheckpointMatch& match, const ShardPlan& shards,
                   const LoadPlanOptions& options)
    : shards_(shards),
      options_(options),
      files_(index.files),
      encodings_(index.encodings),
      ranks_(static_cast<std::size_t>(shards.world())) {
  SLUICE_ASSERT(options.chunk_bytes >= 4 * kKiB, "a chunk of {} bytes is too small to load by",
                options.chunk_bytes);
  SLUICE_ASSERT(options.readers.world() == shards.world(), "readers for {} ranks, shards for {}",
                options.readers.world(), shards.world());
  sources_.reserve(match.entries.size());
  for (const MatchedEntry& matched : match.entries) {
    const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(matched.entry)];
    if (matched.count == 0) continue;
    const std::int64_t begin = entry.begin + index.bytes_of(entry, matched.entry_begin);
    const Encoding* encoding = index.encoding_of(entry);
    const std::int64_t bits = encoding == nullptr ? size_of(entry.dtype) * 8 : bits_of(encoding->codes);
    sources_.push_back({entry.file, matched.tensor, entry.dtype, begin, matched.begin, matched.count, bits,
                        entry.encoding, matched.entry_begin});
  }
  std::ranges::sort(sources_, {}, [](const Source& s) { return std::tuple(s.file, s.begin); });
  cut_reads();
  add_up();
}

void LoadPlan::cut_reads() {
  std::vector<ReadCutter> cutters;
  for (int rank = 0; rank < readers().world(); ++rank) cutters.emplace_back(rank, options_.chunk_bytes);
  for (int i = 0; i < static_cast<int>(sources_.size()); ++i) {
    const Source& source = sources_[static_cast<std::size_t>(i)];
    cut_by_owner(source, {source.element, source.element + source.count}, source.begin,
                 [&](const Piece& piece) {
                   const int reader = readers().reader_of(piece.rank);
                   cutters[static_cast<std::size_t>(reader)].add(source.file, i, piece);
                 });
  }
  for (ReadCutter& cutter : cutters) cutter.finish(reads_);
}

void LoadPlan::add_up() {
  std::vector<Transfer> transfers;
  for (Read& read : reads_) {
    transfers_of(read, transfers);
    add_up(read, transfers);
  }
}

void LoadPlan::add_up(Read& read, const std::vector<Transfer>& transfers) {
  RankTotals& reader = ranks_[static_cast<std::size_t>(read.reader)];
  for (const Transfer& transfer : transfers) read.scale_bytes += transfer.scale_bytes;
  read_bytes_ += read.bytes + read.scale_bytes;
  reader.read += read.bytes + read.scale_bytes;
  reader.largest_read = std::max(reader.largest_read, read.bytes);
  reader.largest_scales = std::max(reader.largest_scales, read.scale_bytes);
  std::int64_t packed_here = 0;
  for (std::size_t rank = 0; rank < transfers.size(); ++rank) {
    const Transfer& transfer = transfers[rank];
    std::int64_t staged = transfer.packed_bytes();
    ranks_[rank].payload += transfer.packed_bytes();
    for (const Piece& piece : transfer.large) {
      ranks_[rank].payload += piece.bytes();
      if (is_staged(piece)) staged += piece.bytes();
    }
    if (static_cast<int>(rank) == read.reader) continue;
    packed_here += transfer.packed_bytes();
    ranks_[rank].packed = std::max(ranks_[rank].packed, staged);
  }
  reader.packed = std::max(reader.packed, packed_here);
}

std::span<const Read> LoadPlan::reads_by(int reader) const {
  return {std::ranges::lower_bound(reads_, reader, {}, &Read::reader),
          std::ranges::upper_bound(reads_, reader, {}, &Read::reader)};
}

std::int64_t LoadPlan::chunk_room(int rank) const {
  const std::int64_t largest = totals(rank).largest_read;
  // A read that begins and ends inside blocks touches up to two more.
  return largest == 0 ? 0 : round_up(largest, kBlockBytes) + 2 * kBlockBytes;
}

int LoadPlan::slots(int rank, int ring_slots) const {
  const auto reads = std::ssize(reads_by(readers().reader_of(rank)));
  return static_cast<int>(std::clamp<std::int64_t>(reads, 1, ring_slots));
}

void LoadPlan::cut_by_owner(const Source& source, Range elements, std::int64_t position,
                            const std::function<void(const Piece&)>& visit) const {
  const Encoding* encoding =
      source.encoding < 0 ? nullptr : &encodings_[static_cast<std::size_t>(source.encoding)];
  shards_.owned_runs(source.tensor, elements, [&](int rank, const ShardPlan::OwnedRun& run) {
    Piece piece{position + source.bytes_of(run.tensor_begin - elements.begin), rank, run.arena_begin,
                run.count, source.dtype};
    piece.encoding = encoding;
    if (encoding != nullptr) piece.element = source.encoded_element + run.tensor_begin - source.element;
    visit(piece);
  });
}

void LoadPlan::for_each_piece(const Read& read, const std::function<void(const Piece&)>& visit) const {
  PieceMerger merger(visit);
  const std::int64_t end = read.offset + read.bytes;
  for (std::size_t i = static_cast<std::size_t>(read.first); i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.file != read.file || source.begin >= end) break;
    const std::int64_t from = std::max(read.offset, source.begin);
    const Range elements{source.element + source.elements_in(from - source.begin),
                         source.element + source.elements_in(std::min(end, source.end()) - source.begin)};
    cut_by_owner(source, elements, from - read.offset, [&](const Piece& piece) { merger.add(piece); });
  }
  merger.flush();
}

void LoadPlan::transfers_of(const Read& read, std::vector<Transfer>& transfers) const {
  transfers.resize(ranks_.size());
  for (Transfer& transfer : transfers) {
    transfer.small.clear();
    transfer.large.clear();
    transfer.small_bytes = 0;
    transfer.scale_bytes = 0;
  }
  for_each_piece(read, [&](const Piece& piece) {
    Transfer& transfer = transfers[static_cast<std::size_t>(piece.rank)];
    transfer.scale_bytes += piece.scale_bytes();
    if (is_large(piece)) {
      transfer.large.push_back(piece);
    } else {
      transfer.small.push_back(piece);
      transfer.small_bytes += piece.bytes();
    }
  });
}

void LoadPlan::check_coverage() const { check_coverage(std::optional<int>()); }

void LoadPlan::check_coverage(int rank) const { check_coverage(std::optional<int>(rank)); }

void LoadPlan::check_coverage(std::optional<int> asked) const {
  std::vector<Interval> written;
  for (const Read& read : reads_)
    for_each_piece(read, [&](const Piece& piece) {
      if (is_asked(asked, piece.rank))
        written.push_back({piece.rank, {piece.target, piece.target + piece.count}});
    });
  const std::vector<Interval> have = joined(std::move(written), "load plan");
  const std::vector<Interval> want = joined(expected_intervals(shards_, asked), "shard plan");
  const auto same = [](const Interval& a, const Interval& b) {
    return a.rank == b.rank && a.range.begin == b.range.begin && a.range.end == b.range.end;
  };
  const auto [at_have, at_want] = std::ranges::mismatch(have, want, same);
  SLUICE_ASSERT(at_have == have.end() && at_want == want.end(),
                "the load plan does not write what the shard plan owns, first in run {} of {} (expected {})",
                at_have - have.begin(), have.size(), want.size());
}

Digest LoadPlan::digest() const {
  ByteWriter out;
  out.number(static_cast<std::int64_t>(options_.arena));
  out.number(options_.discard ? 1 : 0);
  out.number(options_.on_device ? 1 : 0);
  for (const CheckpointFile& file : files_) {
    out.text(file.name);
    out.number(file.bytes);
  }
  for (const Source& source : sources_)
    for (const std::int64_t value :
         {std::int64_t{source.file}, std::int64_t{source.tensor}, static_cast<std::int64_t>(source.dtype),
          source.begin, source.element, source.count, std::int64_t{source.encoding}, source.encoded_element})
      out.number(value);
  for (const Encoding& encoding : encodings_)
    for (const std::int64_t value : numbers_of(encoding)) out.number(value);
  for (const Read& read : reads_) {
    out.number(read.reader);
    out.number(read.offset);
  }
  for (int unit = 0; unit < static_cast<int>(shards_.layouts().units.size()); ++unit) {
    for (int rank = 0; rank < shards_.world(); ++rank) {
      out.number(shards_.owned(unit, rank).end);
      out.number(shards_.arena_offset(unit, rank));
    }
  }
  return digest_of(out.bytes());
}

std::vector<std::int64_t> staging_limits(const ShardPlan& shards, const LoadPlanOptions& options,
                                         int ring_slots, bool with_scales) {
  const std::int64_t widest = size_of(DType::kFloat32);
  std::vector<std::int64_t> limits(static_cast<std::size_t>(shards.world()));
  std::vector<std::int64_t> payload = limits, foreign = limits;  // read by each rank; that it sends on
  for (int rank = 0; rank < shards.world(); ++rank) {
    const auto reader = static_cast<std::size_t>(options.readers.reader_of(rank));
    const std::int64_t bytes = shards.arena_elements(rank) * widest;
    payload[reader] += bytes;
    if (!options.readers.is_reader(rank)) foreign[reader] += bytes;
  }
  for (int rank = 0; rank < shards.world(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const bool reads = options.readers.is_reader(rank);
    const std::int64_t scales = with_scales ? options.chunk_bytes / 2 : 0;
    const std::int64_t staged = std::min(options.chunk_bytes, shards.arena_elements(rank) * widest) + scales;
    const std::int64_t read = std::min(options.chunk_bytes, payload[at]);
    const std::int64_t chunk = round_up(read, LoadPlan::kBlockBytes) + 2 * LoadPlan::kBlockBytes;
    const std::int64_t sent = std::min(options.chunk_bytes, foreign[at]) + scales;
    const std::int64_t slot = reads ? chunk + scales + sent : staged;
    limits[at] = ring_slots * round_up(slot, LoadPlan::kBlockBytes);
  }
  return limits;
}

}  // namespace sluice
