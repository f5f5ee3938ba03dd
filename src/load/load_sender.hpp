// The reading side of a load. Private to src/load.
#pragma once

#include "comm/wait.hpp"
#include "io/blocks/block_ring.hpp"
#include "load/chunk_reader.hpp"
#include "load/load_side.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A rank that reads: reader threads fill the ring, and this thread sends. A slot is refilled once all its
/// messages have been sent.
class LoadSender {
 public:
  /// `setting` must outlive the sender. Reading begins in the constructor.
  explicit LoadSender(const LoadSetting& setting);

  [[nodiscard]] std::size_t steps() const { return chunks_.size(); }
  /// Sends the moves of chunk number `number` and keeps this rank's own moves. Must be called in chunk order.
  void step(std::size_t number);
  /// Waits for all sends to complete.
  void finish();

  [[nodiscard]] std::int64_t staging_bytes() const { return ring_.bytes(); }
  [[nodiscard]] std::int64_t overhead_bytes() const { return overhead_bytes_; }

 private:
  struct Message {
    int to;
    Work work;
  };

  /// Waits until is_done() is true, and tests the pending sends meanwhile: MPI makes progress only inside its
  /// calls.
  void wait_until(const std::function<bool()>& is_done, const Operation& operation);
  [[nodiscard]] ChunkReader::OwnPlace own_place() const;
  /// Sends bytes to another rank of the set; those for this rank to its counterpart in the next set.
  void send(int rank, const std::byte* data, std::int64_t bytes);
  /// Sends a transfer; returns the first byte behind its packed message.
  std::byte* send(int rank, const Transfer& transfer, const std::byte* chunk, const std::byte* scales,
                  std::byte* packed);
  void keep_own(const Transfer& own, const LoadedChunk& chunk, const std::byte* scales);
  /// Frees slots whose messages have all been sent, oldest first.
  void let_go();
  /// Text that says what the ring waits for: the disk, or receivers if all slots wait for them.
  [[nodiscard]] std::string awaited() const;

  const LoadSetting& setting_;
  std::span<const Chunk> chunks_;
  ArenaWriter writer_;
  StagingRing ring_;
  std::vector<LoadedChunk> loaded_;  ///< chunk that each slot holds
  ChunkReader reader_;
  /// Messages of each slot that is sent but not free yet, oldest slot first.
  std::deque<std::vector<Message>> travelling_;
  std::vector<Transfer> transfers_;
  std::int64_t overhead_bytes_ = 0;
  BlockRing ahead_;  ///< reading threads; declared last, because they use the other members
};

}  // namespace sluice
