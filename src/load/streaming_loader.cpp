#include "load/streaming_loader.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr int kTag = 1;

/// Puts pieces where they belong in this rank's arena.
class ArenaWriter {
 public:
  explicit ArenaWriter(const ShardArena& arena) : arena_(arena) {}

  [[nodiscard]] std::byte* place(const Piece& piece) const {
    return arena_.data() + piece.target * size_of(arena_.dtype());
  }
  [[nodiscard]] bool converts(const Piece& piece) const { return piece.dtype != arena_.dtype(); }
  void write(const Piece& piece, const std::byte* source) const {
    convert_elements(source, piece.dtype, place(piece), arena_.dtype(), piece.count);
  }
  /// Pieces that lie one after the other at `source`.
  void write_packed(std::span<const Piece> pieces, const std::byte* source) const {
    for (const Piece& piece : pieces) {
      write(piece, source);
      source += piece.bytes();
    }
  }

 private:
  const ShardArena& arena_;
};

/// A rank that stages nothing has no ring.
MemoryBlock allocate_ring(std::int64_t slot_bytes, int slots) {
  return slot_bytes == 0 ? MemoryBlock() : allocate(MemoryKind::kPrivate, slot_bytes * slots, "load staging");
}

/// One of `slots` equal parts of a block.
std::span<std::byte> slot_of(const MemoryBlock& block, int slots, std::size_t read) {
  const auto bytes = static_cast<std::size_t>(block.bytes() / slots);
  return {block.data() + read % static_cast<std::size_t>(slots) * bytes, bytes};
}

/// Rank 0: reads into a ring of slots; a slot is read into again once all its messages have left.
class Sender {
 public:
  Sender(Communicator& comm, const LoadPlan& plan, const std::filesystem::path& directory,
         const ShardArena& arena, const LoadOptions& options)
      : comm_(comm),
        plan_(plan),
        reader_(plan, directory, options.page_cache),
        writer_(arena),
        ring_(allocate_ring(plan.slot_bytes(0), options.ring_slots)),
        works_(static_cast<std::size_t>(options.ring_slots)) {}

  void step(std::size_t i) {
    const Read& read = plan_.reads()[i];
    const std::span<std::byte> slot = slot_of(ring_, static_cast<int>(works_.size()), i);
    wait_for_slot(i);
    reader_.read(read, slot, [this] { keep_moving(); });
    plan_.transfers_of(read, transfers_);
    std::byte* packed = slot.data() + plan_.largest_read_bytes();
    for (int rank = 1; rank < comm_.size(); ++rank)
      packed = send(i, rank, transfers_[static_cast<std::size_t>(rank)], slot.data(), packed);
    for (const Piece& piece : transfers_[0].small) writer_.write(piece, slot.data() + piece.source);
    for (const Piece& piece : transfers_[0].large) {
      writer_.write(piece, slot.data() + piece.source);
      keep_moving();
    }
  }

  /// Waits for everything that is still under way.
  void finish() {
    for (std::size_t slot = 0; slot < works_.size(); ++slot) wait_for_slot(slot);
  }
  [[nodiscard]] std::int64_t staging_bytes() const { return ring_.bytes(); }

 private:
  std::vector<Work>& works(std::size_t i) { return works_[i % works_.size()]; }

  /// Returns where the next packed message may begin.
  std::byte* send(std::size_t i, int rank, const Transfer& transfer, const std::byte* chunk,
                  std::byte* packed) {
    std::byte* end = packed;
    for (const Piece& piece : transfer.small) {
      std::memcpy(end, chunk + piece.source, static_cast<std::size_t>(piece.bytes()));
      end += piece.bytes();
    }
    if (end != packed) works(i).push_back(comm_.send(packed, end - packed, rank, kTag));
    for (const Piece& piece : transfer.large)
      works(i).push_back(comm_.send(chunk + piece.source, piece.bytes(), rank, kTag));
    return end;
  }

  void wait_for_slot(std::size_t i) {
    for (Work& work : works(i)) work.wait();
    works(i).clear();
  }

  /// MPI moves data only inside its calls.
  void keep_moving() {
    for (std::vector<Work>& slot : works_)
      for (Work& work : slot) static_cast<void>(work.test());
  }

  Communicator& comm_;
  const LoadPlan& plan_;
  ChunkReader reader_;
  ArenaWriter writer_;
  MemoryBlock ring_;
  std::vector<std::vector<Work>> works_;
  std::vector<Transfer> transfers_;
};

/// Other ranks: receives are posted a ring's length ahead, into the arena itself wherever no conversion is
/// needed.
class Receiver {
 public:
  Receiver(Communicator& comm, const LoadPlan& plan, const ShardArena& arena, int ring_slots)
      : comm_(comm),
        plan_(plan),
        writer_(arena),
        ring_(allocate_ring(plan.slot_bytes(comm.rank()), ring_slots)),
        slots_(static_cast<std::size_t>(ring_slots)) {}

  void step(std::size_t i) {
    while (posted_ < plan_.reads().size() && posted_ < i + slots_.size()) post(posted_++);
    Slot& slot = slots_[i % slots_.size()];
    for (Work& work : slot.works) work.wait();
    slot.works.clear();
    const std::byte* staged = staging(i);
    writer_.write_packed(slot.transfer.small, staged);
    staged += slot.transfer.small_bytes;
    for (const Piece& piece : slot.transfer.large) {
      if (!writer_.converts(piece)) continue;
      writer_.write(piece, staged);
      staged += piece.bytes();
    }
  }

  void finish() const {}  ///< each step has waited for its own
  [[nodiscard]] std::int64_t staging_bytes() const { return ring_.bytes(); }

 private:
  struct Slot {
    Transfer transfer;
    std::vector<Work> works;
  };

  [[nodiscard]] std::byte* staging(std::size_t i) const {
    return slot_of(ring_, static_cast<int>(slots_.size()), i).data();
  }

  void post(std::size_t i) {
    Slot& slot = slots_[i % slots_.size()];
    plan_.transfers_of(plan_.reads()[i], transfers_);
    std::swap(slot.transfer, transfers_[static_cast<std::size_t>(comm_.rank())]);
    std::byte* staged = staging(i);
    if (slot.transfer.small_bytes > 0) receive(slot, staged, slot.transfer.small_bytes);
    staged += slot.transfer.small_bytes;
    for (const Piece& piece : slot.transfer.large) {
      receive(slot, writer_.converts(piece) ? staged : writer_.place(piece), piece.bytes());
      if (writer_.converts(piece)) staged += piece.bytes();
    }
  }

  void receive(Slot& slot, std::byte* to, std::int64_t bytes) {
    slot.works.push_back(comm_.receive(to, bytes, 0, kTag));
  }

  Communicator& comm_;
  const LoadPlan& plan_;
  ArenaWriter writer_;
  MemoryBlock ring_;
  std::vector<Slot> slots_;
  std::vector<Transfer> transfers_;
  std::size_t posted_ = 0;
};

/// The loop that both sides have in common. `after` is called with the number of reads done.
template <class Side, class After>
void run(Side& side, int rank, std::size_t reads, GrowthSampler& growth, RankLoad& row, After after) {
  row.peak_staging_bytes = side.staging_bytes();
  for (std::size_t i = 0; i < reads; ++i) {
    fault_point("load.chunk", rank);
    side.step(i);
    growth.tick();
    after(i);
  }
  side.finish();
  growth.sample();  // before the ring is given back
}

}  // namespace

LoadReport load_shards(Communicator& comm, const LoadPlan& plan, const std::filesystem::path& directory,
                       ShardArena& weights, const LoadOptions& options) {
  SLUICE_ASSERT(comm.size() == plan.shards().world() && comm.rank() == weights.rank() &&
                    weights.dtype() == plan.arena_dtype() && &weights.plan() == &plan.shards(),
                "the load plan is for {} ranks and {}", plan.shards().world(), name_of(plan.arena_dtype()));
  SLUICE_ASSERT(options.ring_slots >= 1, "a ring of {} slots", options.ring_slots);
  const Stopwatch watch;
  const Traffic before = comm.traffic();
  const std::vector<Read>& reads = plan.reads();
  GrowthSampler growth(options.baseline);
  RankLoad row;
  row.shard_bytes = weights.bytes();
  if (comm.rank() == 0) {
    Sender sender(comm, plan, directory, weights, options);
    run(sender, 0, reads.size(), growth, row, [&](std::size_t i) {
      row.read_bytes += reads[i].bytes;
      if (options.progress) options.progress({row.read_bytes, plan.read_bytes(), watch.seconds()});
    });
  } else {
    Receiver receiver(comm, plan, weights, options.ring_slots);
    run(receiver, comm.rank(), reads.size(), growth, row, [](std::size_t) {});
  }
  row.seconds = watch.seconds();
  row.peak_growth_bytes = growth.peak_bytes();
  row.received_bytes = comm.traffic().received_bytes - before.received_bytes;
  row.sent_bytes = comm.traffic().sent_bytes - before.sent_bytes;
  return gather_report(comm, row);
}

}  // namespace sluice
