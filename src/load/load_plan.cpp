#include "load/load_plan.hpp"

#include "base/boxes/coverage.hpp"
#include "base/byte_stream.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "load/chunk_cutter.hpp"
#include "load/row_quantiser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace sluice {
namespace {

/// Joins moves that follow each other both in the chunk and in the arena.
class MoveMerger {
 public:
  MoveMerger(const ShardPlan& shards, const std::function<void(const LoadMove&)>& visit)
      : shards_(shards), visit_(visit) {}
  void add(const LoadMove& move) {
    if (last_.count > 0 && !move.is_box() && !last_.is_box() && move.rank == last_.rank &&
        move.dtype == last_.dtype && move.encoding == last_.encoding &&
        move.source == last_.source + last_.bytes() && move.arena == last_.arena + last_.count &&
        is_stored(move) == is_stored(last_) &&
        (move.encoding == nullptr || move.element == last_.element + last_.count)) {
      last_.count += move.count;
      return;
    }
    flush();
    last_ = move;
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
  [[nodiscard]] bool is_stored(const LoadMove& move) const {
    return shards_.is_stored_at(move.rank, move.arena);
  }

  const ShardPlan& shards_;
  const std::function<void(const LoadMove&)>& visit_;
  LoadMove last_;
  std::int64_t scale_bytes_ = 0;  ///< bytes of scales in the moves visited so far
};

std::string arena_name(int rank) { return fmt::format("rank {}'s arena", rank); }

void add(Coverage& coverage, const LoadMove& move) {
  if (move.row_stride == 0) return coverage.add(move.rank, Range{move.arena, move.arena + move.count});
  const std::int64_t row = (move.arena - move.rows_begin) / move.row_stride;
  const std::int64_t column = (move.arena - move.rows_begin) % move.row_stride;
  coverage.add(move.rank, move.rows_begin, move.row_stride,
               {{row, row + move.length()}, {column, column + move.lines}});
}

/// Whether a rank is asked about: `asked` is one rank, or nothing for all.
bool is_asked(std::optional<int> asked, int rank) { return !asked || *asked == rank; }

/// The elements of the arenas of `asked` that a checkpoint must fill.
Coverage expected_of(const ShardPlan& shards, const std::vector<int>& left_in_files,
                     std::optional<int> asked) {
  Coverage expected;
  for (const FlatLayout& unit : shards.layouts().units)
    for (const Placement& placement : unit.placements()) {
      if (placement.block_elements == 0 || placement.is_adapter ||
          std::ranges::binary_search(left_in_files, placement.tensor))
        continue;
      shards.owned_runs(placement.tensor, {0, placement.elements()},
                        [&](int rank, const ShardPlan::OwnedRun& run) {
                          if (is_asked(asked, rank))
                            expected.add(rank, Range{run.arena_begin, run.arena_begin + run.count});
                        });
    }
  return expected;
}

}  // namespace

LoadPlan::LoadPlan(const CheckpointIndex& index, const CheckpointMatch& match, const ShardPlan& shards,
                   const LoadPlanOptions& options)
    : shards_(shards),
      options_(options),
      files_(index.files),
      encodings_(index.encodings),
      ranks_(static_cast<std::size_t>(shards.world())) {
  SLUICE_ASSERT(options.chunk_bytes >= 4 * kKiB, "a chunk of {} bytes is too small", options.chunk_bytes);
  SLUICE_ASSERT(options.readers.world() == shards.world(),
                "readers are assigned for {} ranks, but there are shards for {}", options.readers.world(),
                shards.world());
  extents_.reserve(match.entries.size());
  for (const MatchedEntry& matched : match.entries) {
    const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(matched.entry)];
    if (matched.count == 0 || std::ranges::binary_search(options.left_in_files, matched.tensor)) continue;
    const std::int64_t begin = entry.begin + index.bytes_of(entry, matched.entry_begin);
    const Encoding* encoding = index.encoding_of(entry);
    const std::int64_t bits = encoding == nullptr ? size_of(entry.dtype) * 8 : bits_of(encoding->codes);
    FileRange range{matched.tensor, matched.begin, matched.count};
    if (matched.is_transposed) {
      range.rows = entry.shape[entry.shape.size() - 2];
      range.columns = entry.shape.back();
    }
    extents_.push_back({entry.file, range, entry.dtype, begin, bits, entry.encoding, matched.entry_begin});
  }
  std::ranges::sort(extents_, {},
                    [](const FileExtent& extent) { return std::tuple(extent.file, extent.begin); });
  cut_chunks();
  add_up();
}

void LoadPlan::cut_chunks() {
  std::vector<ChunkCutter> cutters;
  for (int rank = 0; rank < readers().world(); ++rank) cutters.emplace_back(rank, options_.chunk_bytes);
  for (int i = 0; i < static_cast<int>(extents_.size()); ++i) {
    const FileExtent& extent = extents_[static_cast<std::size_t>(i)];
    const auto add = [&](int reader, const LoadMove& move) {
      cutters[static_cast<std::size_t>(reader)].add(extent.file, i, move);
    };
    if (extent.range.rows > 0)
      hulls_by_reader(extent, [&](int reader, Range elements) {
        add(reader, {{.rank = reader, .count = elements.count()},
                     extent.begin + extent.bytes_of(elements.begin),
                     extent.dtype});
      });
    else
      visit_moves(extent, {0, extent.range.count}, extent.begin,
                  [&](const LoadMove& move) { add(readers().reader_of(move.rank), move); });
  }
  for (ChunkCutter& cutter : cutters) cutter.finish(chunks_);
}

void LoadPlan::add_up() {
  std::vector<Transfer> transfers;
  for (Chunk& chunk : chunks_) {
    transfers_of(chunk, transfers);
    add_up(chunk, transfers);
  }
}

void LoadPlan::add_up(Chunk& chunk, const std::vector<Transfer>& transfers) {
  RankTotals& reader = ranks_[static_cast<std::size_t>(chunk.reader)];
  for (const Transfer& transfer : transfers) chunk.scale_bytes += transfer.scale_bytes;
  read_bytes_ += chunk.bytes + chunk.scale_bytes;
  reader.read += chunk.bytes + chunk.scale_bytes;
  reader.largest_chunk = std::max(reader.largest_chunk, chunk.bytes);
  reader.largest_scales = std::max(reader.largest_scales, chunk.scale_bytes);
  std::int64_t packed_here = 0;
  for (std::size_t rank = 0; rank < transfers.size(); ++rank) {
    const Transfer& transfer = transfers[rank];
    std::int64_t staged = transfer.packed_bytes();
    ranks_[rank].payload += transfer.packed_bytes();
    for (const LoadMove& move : transfer.large) {
      ranks_[rank].payload += move.bytes();
      if (is_staged(move)) staged += move.bytes();
    }
    const bool is_own = static_cast<int>(rank) == chunk.reader;
    if (is_own && !passes_on()) continue;
    packed_here += transfer.packed_bytes();
    reader.sent += transfer.packed_bytes();
    for (const LoadMove& move : transfer.large) reader.sent += move.bytes();
    if (!is_own) ranks_[rank].packed = std::max(ranks_[rank].packed, staged);
  }
  reader.packed = std::max(reader.packed, packed_here);
}

std::span<const Chunk> LoadPlan::chunks_of(int reader) const {
  return {std::ranges::lower_bound(chunks_, reader, {}, &Chunk::reader),
          std::ranges::upper_bound(chunks_, reader, {}, &Chunk::reader)};
}

std::int64_t LoadPlan::chunk_room(int rank) const {
  const std::int64_t largest = totals(rank).largest_chunk;
  // A chunk that begins and ends inside blocks touches up to two blocks more than it fills.
  return largest == 0 ? 0 : round_up(largest, kBlockBytes) + 2 * kBlockBytes;
}

int LoadPlan::slots(int rank, int ring_slots) const {
  const auto chunks = std::ssize(chunks_of(readers().reader_of(rank)));
  return static_cast<int>(std::clamp<std::int64_t>(chunks, 1, ring_slots));
}

std::int64_t LoadPlan::staging_bytes(int rank, int ring_slots) const {
  return slots(rank, ring_slots) * round_up(slot_bytes(rank), kBlockBytes) +
         quantiser_bytes(shards_, options_, rank);
}

/// Visits the moves of all ranks of elements [begin, end) of an extent; the first element lies at `position`
/// of the chunk.
void LoadPlan::visit_moves(const FileExtent& extent, Range elements, std::int64_t position,
                           const std::function<void(const LoadMove&)>& visit) const {
  const Encoding* encoding =
      extent.encoding < 0 ? nullptr : &encodings_[static_cast<std::size_t>(extent.encoding)];
  for_each_move(shards_, extent.range, elements, {}, [&](const Move& move) {
    visit({move, position + extent.bytes_of(move.file - elements.begin), extent.dtype, encoding,
           encoding == nullptr ? 0 : extent.encoded_element + move.file});
  });
}

/// Calls visit(reader, elements) for each matrix and each reader of a part of it. `elements` of the extent
/// reach from the first to the last element that the reader needs.
void LoadPlan::hulls_by_reader(const FileExtent& extent,
                               const std::function<void(int reader, Range elements)>& visit) const {
  const FileRange& range = extent.range;
  std::map<int, Range> hulls;
  for (std::int64_t first = 0; first < range.count; first += range.matrix()) {
    hulls.clear();
    for_each_move(shards_, range, {first, first + range.matrix()}, {}, [&](const Move& move) {
      const Range needed{move.file, move.file + (move.lines - 1) * move.line_stride + move.length()};
      Range& hull = hulls.try_emplace(readers().reader_of(move.rank), needed).first->second;
      hull = {std::min(hull.begin, needed.begin), std::max(hull.end, needed.end)};
    });
    for (const auto& [reader, hull] : hulls) visit(reader, hull);
  }
}

void LoadPlan::for_each_move_of(const Chunk& chunk, const std::function<void(const LoadMove&)>& visit) const {
  MoveMerger merger(shards_, visit);
  const std::int64_t end = chunk.offset + chunk.bytes;
  for (std::size_t i = static_cast<std::size_t>(chunk.first); i < extents_.size(); ++i) {
    const FileExtent& extent = extents_[i];
    if (extent.file != chunk.file || extent.begin >= end) break;
    const std::int64_t from = std::max(chunk.offset, extent.begin);
    const Range inside{extent.elements_in(from - extent.begin),
                       extent.elements_in(std::min(end, extent.end()) - extent.begin)};
    visit_moves(extent, inside, from - chunk.offset, [&](const LoadMove& move) {
      if (readers().reader_of(move.rank) == chunk.reader)
        merger.add(move);  // elements from first to last include some that the reader does not need
    });
  }
  merger.flush();
}

void LoadPlan::transfers_of(const Chunk& chunk, std::vector<Transfer>& transfers) const {
  transfers.resize(ranks_.size());
  for (Transfer& transfer : transfers) {
    transfer.small.clear();
    transfer.large.clear();
    transfer.small_bytes = 0;
    transfer.scale_bytes = 0;
  }
  for_each_move_of(chunk, [&](const LoadMove& move) {
    Transfer& transfer = transfers[static_cast<std::size_t>(move.rank)];
    transfer.scale_bytes += move.scale_bytes();
    if (is_large(move)) {
      transfer.large.push_back(move);
    } else {
      transfer.small.push_back(move);
      transfer.small_bytes += move.bytes();
    }
  });
}

void LoadPlan::check_coverage() const { check_coverage(std::optional<int>()); }

void LoadPlan::check_coverage(int rank) const { check_coverage(std::optional<int>(rank)); }

void LoadPlan::check_coverage(std::optional<int> asked) const {
  Coverage written;
  for (const Chunk& chunk : chunks_)
    for_each_move_of(chunk, [&](const LoadMove& move) {
      if (is_asked(asked, move.rank)) add(written, move);
    });
  const std::vector<Coverage::Covered> have = written.joined("load plan", arena_name);
  const std::vector<Coverage::Covered> want =
      expected_of(shards_, options_.left_in_files, asked).joined("shard plan", arena_name);
  const auto [at_have, at_want] = std::ranges::mismatch(have, want);
  SLUICE_ASSERT(at_have == have.end() && at_want == want.end(),
                "the load plan does not write what the shard plan owns, first in run {} of {} (expected {})",
                at_have - have.begin(), have.size(), want.size());
}

Digest LoadPlan::digest() const {
  ByteWriter out;
  out.number(static_cast<std::int64_t>(options_.arena));
  out.number(options_.discard ? 1 : 0);
  out.number(options_.on_device ? 1 : 0);
  out.number(options_.passes_on ? 1 : 0);
  for (const CheckpointFile& file : files_) {
    out.text(file.name);
    out.number(file.bytes);
  }
  for (const FileExtent& extent : extents_)
    for (const std::int64_t value :
         {std::int64_t{extent.file}, std::int64_t{extent.range.tensor},
          static_cast<std::int64_t>(extent.dtype), extent.begin, extent.range.begin, extent.range.count,
          std::int64_t{extent.encoding}, extent.encoded_element, extent.range.rows, extent.range.columns})
      out.number(value);
  for (const Encoding& encoding : encodings_)
    for (const std::int64_t value : numbers_of(encoding)) out.number(value);
  for (const Chunk& chunk : chunks_) {
    out.number(chunk.reader);
    out.number(chunk.offset);
  }
  out.text(shards_.digest().hex());
  return digest_of(out.bytes());
}

std::vector<std::int64_t> staging_limits(const ShardPlan& shards, const LoadPlanOptions& options,
                                         int ring_slots, bool with_scales) {
  const std::int64_t widest = size_of(DType::kFloat32);
  std::vector<std::int64_t> limits(static_cast<std::size_t>(shards.world()));
  std::vector<std::int64_t> foreign = limits;  // bytes that each rank may read for other ranks
  // Payload bytes for all ranks; a chunk may hold more bytes than its reader needs.
  std::int64_t payload = 0;
  for (int rank = 0; rank < shards.world(); ++rank) {
    const auto reader = static_cast<std::size_t>(options.readers.reader_of(rank));
    const std::int64_t bytes = shards.held_elements(rank) * widest;
    payload += bytes;
    if (!options.readers.is_reader(rank) || options.passes_on) foreign[reader] += bytes;
  }
  for (int rank = 0; rank < shards.world(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const bool reads = options.readers.is_reader(rank);
    const std::int64_t scales = with_scales ? options.chunk_bytes / 2 : 0;
    const std::int64_t staged = std::min(options.chunk_bytes, shards.held_elements(rank) * widest) + scales;
    const std::int64_t most = std::min(options.chunk_bytes, payload);
    const std::int64_t chunk = round_up(most, LoadPlan::kBlockBytes) + 2 * LoadPlan::kBlockBytes;
    const std::int64_t sent = std::min(options.chunk_bytes, foreign[at]) + scales;
    const std::int64_t slot = reads ? chunk + scales + sent : staged;
    limits[at] = ring_slots * round_up(slot, LoadPlan::kBlockBytes) + quantiser_bytes(shards, options, rank);
  }
  return limits;
}

}  // namespace sluice
