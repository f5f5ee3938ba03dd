// How a checkpoint's bytes reach the arenas: chunks in file order, each cut into moves to one owner each.
// Pure.
//
//   file      | tensor a | tensor b | (ignored) | tensor c ...
//   chunks    |<-- full --->|<- rest ->|         |<-- full --->|     large, whatever the sizes of tensors
//   moves     | rank 0 | rank 1 |  1   |  2 |                        consecutive in the file and in one arena
//
// With several readers, each reads only the bytes of the ranks it reads for. The plan stores the table of
// tensors and the chunks; moves are computed on demand.
#pragma once

#include "base/bytes.hpp"
#include "base/digest.hpp"
#include "base/round.hpp"
#include "load/reader_assignment.hpp"
#include "shard/moves.hpp"
#include "shard/shard_plan.hpp"
#include "weights/checkpoint_match.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Bytes [offset, offset + bytes) of a file that are read at once; a chunk never cuts an element, nor a group
/// of 4-bit codes. `first` is the first tensor of which it holds a part.
struct Chunk {
  int reader = 0;  ///< rank that reads the chunk
  int file = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  int first = 0;
  /// Bytes of the scales of the chunk's codes, which are read beside it, wherever they lie.
  std::int64_t scale_bytes = 0;
};

/// A move of elements of type `dtype`, which begin `source` bytes into a chunk, to one rank's arena. With an
/// encoding it moves codes of the encoded tensor's elements from `element` on.
struct LoadMove : Move {
  std::int64_t source = 0;
  DType dtype = DType::kFloat32;
  const Encoding* encoding = nullptr;  ///< encoding of the codes, in the plan's list; null for plain elements
  std::int64_t element = 0;
  /// Byte among the chunk's scales, in the order of its moves, at which the scales of this move begin.
  std::int64_t scale_source = 0;

  /// Whether the move's elements are consecutive in the chunk.
  [[nodiscard]] bool is_contiguous() const { return lines == 1 || line_stride == length(); }

  [[nodiscard]] std::int64_t bytes() const {
    return encoding == nullptr ? count * size_of(dtype) : encoding->code_bytes(count);
  }
  /// Bytes of the smallest group of codes that no chunk may cut.
  [[nodiscard]] std::int64_t atom_bytes() const {
    return encoding == nullptr ? size_of(dtype) : encoding->code_bytes(encoding->atom_elements());
  }
  [[nodiscard]] Range elements() const { return {element, element + count}; }
  /// Scales that the move needs, among all scales of its encoding.
  [[nodiscard]] Range scales() const {
    return encoding == nullptr ? Range() : encoding->scales_of(elements());
  }
  [[nodiscard]] std::int64_t scale_bytes() const {
    return encoding == nullptr ? 0 : encoding->scale_bytes(scales());
  }
};

/// The moves of one chunk to one rank. Small moves, and boxes with other ranks' elements between
/// their lines, are packed into one message, in this order, and behind them the scales of all moves, those
/// of small moves first; each large move has a message of its own. Sender and receiver derive this
/// independently.
struct Transfer {
  std::vector<LoadMove> small;
  std::vector<LoadMove> large;
  std::int64_t small_bytes = 0;
  std::int64_t scale_bytes = 0;
  [[nodiscard]] std::int64_t packed_bytes() const { return small_bytes + scale_bytes; }
};

struct LoadPlanOptions {
  DType arena = DType::kBFloat16;
  std::int64_t chunk_bytes = 8 * kMiB;  ///< most bytes of a chunk; at least 4 KiB
  ReaderAssignment readers;
  bool on_device = false;  ///< arenas that host code cannot reach: all that a rank receives is staged
  std::vector<int> left_in_files{};  ///< indices of manifest tensors that go to no arena, ascending
  /// Whether frozen routed experts in bfloat16 are stored units too (encode_plain_experts()).
  bool stores_plain_experts = false;
  /// Whether files hold plain numbers for stored tensors, which are quantised to codes and scales; and
  /// whether files may have these matrices transposed.
  bool quantises = false, has_transposed = false;
  /// Whether ranks of the first set pass on what they get to their counterparts, from set to set.
  bool passes_on = false;
  /// Whether received bytes are dropped after staging, to measure the stream alone, without arenas.
  bool discard = false;
};

class LoadPlan {
 public:
  /// Moves of at least this many bytes are sent unpacked, in a message of their own.
  static constexpr std::int64_t kLargeMoveBytes = 64 * kKiB;
  [[nodiscard]] static bool is_large(const LoadMove& move) {
    return move.bytes() >= kLargeMoveBytes && move.is_contiguous();
  }
  /// Chunks end on multiples of this many bytes where they can, so that direct reads fetch no block twice.
  static constexpr std::int64_t kBlockBytes = 4 * kKiB;

  /// `shards` must outlive the plan; the index and the match need not.
  LoadPlan(const CheckpointIndex& index, const CheckpointMatch& match, const ShardPlan& shards,
           const LoadPlanOptions& options);

  [[nodiscard]] const std::vector<CheckpointFile>& files() const { return files_; }
  /// All chunks, ordered by reader, then as in the files.
  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }
  [[nodiscard]] std::span<const Chunk> chunks_of(int reader) const;
  [[nodiscard]] const ReaderAssignment& readers() const { return options_.readers; }
  [[nodiscard]] const ShardPlan& shards() const { return shards_; }
  [[nodiscard]] DType arena_dtype() const { return options_.arena; }
  [[nodiscard]] bool discards() const { return options_.discard; }
  [[nodiscard]] bool passes_on() const { return options_.passes_on; }
  /// Whether a move passes through its owner's staging memory; otherwise it is received into the arena.
  [[nodiscard]] bool is_staged(const LoadMove& move) const {
    return options_.discard || options_.on_device || move.encoding != nullptr ||
           move.dtype != options_.arena || move.is_box() || shards_.is_stored_at(move.rank, move.arena);
  }

  /// Calls `visit` with the moves of a chunk, each as long as possible, in file order.
  void for_each_move_of(const Chunk& chunk, const std::function<void(const LoadMove&)>& visit) const;
  /// Groups the moves of a chunk by the rank that they go to. `transfers` is overwritten and keeps its
  /// capacity.
  void transfers_of(const Chunk& chunk, std::vector<Transfer>& transfers) const;

  /// Error(kInternal) unless every element of every arena that belongs to a tensor is written exactly once,
  /// and no other element is. Takes as long as making the plan, and temporarily 24 bytes per move, 56 per
  /// box.
  void check_coverage() const;
  /// Checks that the moves cover the arena of one rank; if every rank does so, all arenas are proved.
  void check_coverage(int rank) const;

  /// Payload bytes, in the files' element types, scales included: read in total; and read, kept and sent by
  /// one rank. Readers that share a transposed matrix also read the elements between their own, and count
  /// them. What ranks that do not read pass on is not counted.
  [[nodiscard]] std::int64_t read_bytes() const { return read_bytes_; }
  [[nodiscard]] std::int64_t read_bytes(int rank) const { return totals(rank).read; }
  [[nodiscard]] std::int64_t payload_bytes(int rank) const { return totals(rank).payload; }
  [[nodiscard]] std::int64_t sent_bytes(int rank) const { return totals(rank).sent; }
  /// Bytes of staging that one chunk takes. At its reader, and its counterparts in other sets: the chunk, rounded
  /// out to blocks, its scales, and what is packed for others. Elsewhere: what arrives packed, is converted, or goes
  /// on to a device.
  [[nodiscard]] std::int64_t slot_bytes(int rank) const {
    return chunk_room(rank) + scale_room(rank) + totals(rank).packed;
  }
  /// Bytes of a reader's slot that hold the chunk itself, in whole blocks; 0 on other ranks.
  [[nodiscard]] std::int64_t chunk_room(int rank) const;
  /// Bytes of a reader's slot, behind the chunk room, that hold the scales of the chunk.
  [[nodiscard]] std::int64_t scale_room(int rank) const { return totals(rank).largest_scales; }
  /// Slots in a rank's ring: `ring_slots`, or the number of chunks in which it takes part if that is less.
  [[nodiscard]] int slots(int rank, int ring_slots) const;
  /// Bytes that the load of a rank allocates besides its arena: its slots, in whole blocks, and rows that
  /// wait to be quantised.
  [[nodiscard]] std::int64_t staging_bytes(int rank, int ring_slots) const;

  /// Digest of everything that two ranks must have in common to load together.
  [[nodiscard]] Digest digest() const;

 private:
  /// A range of a tensor in a file, whose bytes begin at byte `begin`. An element or code has `bits` bits.
  struct FileExtent {
    int file = 0;
    FileRange range;
    DType dtype = DType::kFloat32;
    std::int64_t begin = 0;
    std::int64_t bits = 0;
    int encoding = -1;                 ///< index of the encoding in encodings_; -1: plain elements
    std::int64_t encoded_element = 0;  ///< number of the range's first element, as the encoding counts
    [[nodiscard]] std::int64_t bytes_of(std::int64_t elements) const { return elements * bits / 8; }
    [[nodiscard]] std::int64_t elements_in(std::int64_t bytes) const { return bytes * 8 / bits; }
    [[nodiscard]] std::int64_t end() const { return begin + bytes_of(range.count); }
  };
  struct RankTotals {
    std::int64_t read = 0;
    std::int64_t payload = 0;
    std::int64_t sent = 0;
    std::int64_t largest_chunk = 0;
    std::int64_t largest_scales = 0;
    std::int64_t packed = 0;  ///< most bytes of staging for one chunk, the chunk itself not counted
  };
  void cut_chunks();
  void add_up();
  void add_up(Chunk& chunk, const std::vector<Transfer>& transfers);
  void check_coverage(std::optional<int> rank) const;
  void visit_moves(const FileExtent& extent, Range elements, std::int64_t position,
                   const std::function<void(const LoadMove&)>& visit) const;
  void hulls_by_reader(const FileExtent& extent,
                       const std::function<void(int reader, Range elements)>& visit) const;
  [[nodiscard]] const RankTotals& totals(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  const ShardPlan& shards_;
  LoadPlanOptions options_;
  std::vector<CheckpointFile> files_;
  std::vector<FileExtent> extents_;  ///< extents that are not empty, ordered by file, then by begin
  std::vector<Encoding> encodings_;
  std::vector<Chunk> chunks_;
  std::vector<RankTotals> ranks_;
  std::int64_t read_bytes_ = 0;
};

/// Upper bound of LoadPlan::staging_bytes() on each rank for any files, such as files that do not exist yet.
/// Elements of up to 4 bytes may have to be converted. `with_scales`: files may be quantised, with at most
/// half as many bytes of scales as of codes.
[[nodiscard]] std::vector<std::int64_t> staging_limits(const ShardPlan& shards,
                                                       const LoadPlanOptions& options, int ring_slots,
                                                       bool with_scales = false);

}  // namespace sluice
