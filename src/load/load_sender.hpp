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

/// A rank that reads: reader threads fill the ring, this thread sends. A slot is refilled once all its
/// messages have been sent.
class LoadSender {
 public:
  /// `setting` must outlive the sender. Reading begins at once.
  explicit LoadSender(const LoadSetting& setting);

  [[nodiscard]] std::size_t steps() const { return reads_.size(); }
  /// Sends the pieces of read number `read` and keeps this rank's own. Call it in read order.
  void step(std::size_t read);
  /// Waits for all sends to complete.
  void finish();

  [[nodiscard]] std::int64_t staging_bytes() const { return ring_.bytes(); }
  [[nodiscard]] std::int64_t overhead_bytes() const { return overhead_bytes_; }

 private:
  struct Message {
    int to;
    Work work;
  };

  /// Waits while testing the pending sends: MPI makes progress only inside its calls.
  void wait_until(const std::function<bool()>& is_done, const Operation& operation);
  [[nodiscard]] ChunkReader::OwnPlace own_place() const;
  void send(int rank, const std::byte* data, std::int64_t bytes);
  /// Returns where the next packed message may begin.
  std::byte* send(int rank, const Transfer& transfer, const std::byte* chunk, const std::byte* scales,
                  std::byte* packed);
  void keep_own(const Transfer& own, const Chunk& chunk, const std::byte* scales);
  /// Frees the slots, oldest first, whose messages have left.
  void let_go();
  /// Text for what the ring waits for: the disk, unless all slots wait for receivers.
  [[nodiscard]] std::string awaited() const;

  const LoadSetting& setting_;
  std::span<const Read> reads_;
  ArenaWriter writer_;
  StagingRing ring_;
  std::vector<Chunk> chunks_;  ///< chunk in each slot
  ChunkReader reader_;
  /// Messages of each slot that is sent and not free yet, in order.
  std::deque<std::vector<Message>> travelling_;
  std::vector<Transfer> transfers_;
  std::int64_t overhead_bytes_ = 0;
  BlockRing ahead_;  ///< reading threads; the last member, since they use the others
};

}  // namespace sluice
