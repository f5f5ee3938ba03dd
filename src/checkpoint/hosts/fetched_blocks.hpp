// Fetches blocks of a checkpoint from other hosts' disks, by the ranks that can read them.
#pragma once

#include "checkpoint/block_stream.hpp"
#include "checkpoint/hosts/held_steps.hpp"
#include "comm/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Assignment of readers: the rank that reads a checkpoint's file for another rank.
class StepReaders {
 public:
  /// Every rank reads all files for itself.
  StepReaders() = default;
  /// A rank reads files on its own disk; other files are read by ranks of a disk that has them, which take
  /// turns.
  StepReaders(FileHolders holders, RankDisks disks);

  [[nodiscard]] int reader_of(int file, int rank) const;

 private:
  FileHolders holders_;
  std::optional<RankDisks> disks_;
};

/// Transfer of a block that rank `from` reads for rank `to`. In one round a rank sends at most one block and
/// receives at most one.
struct BlockTransfer {
  BlockPlace place;
  int from = 0;
  int to = 0;
  std::int64_t round = 0;
  bool operator==(const BlockTransfer&) const = default;
};

/// A block that a rank needs from another rank.
struct WantedBlock {
  BlockPlace place;
  int from = 0;
};

/// Transfers that bring each rank the blocks of its list, in order; by round.
[[nodiscard]] std::vector<BlockTransfer> order_transfers(const std::vector<std::vector<WantedBlock>>& wanted);

/// Collective over `comm`. Fetches the blocks that this rank needs from other ranks, one after the other in
/// their order, each verified by its digest, and reads blocks for other ranks from `directory`. `use` is
/// called with each block, which is valid until it returns. Holds six blocks of kSavedBlockBytes and the list
/// of all ranks' blocks. If one rank fails, every rank throws its error.
void fetch_blocks(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                  const std::vector<WantedBlock>& wanted, double limit_seconds,
                  const std::function<void(const BlockPlace&, const std::byte*)>& use);

}  // namespace sluice
