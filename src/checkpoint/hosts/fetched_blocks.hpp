// Blocks of a saved step that lie on other hosts' disks, brought by the ranks that can read them.
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
  /// A rank reads what its own disk has, and else a rank of a disk that has the file: those take turns.
  StepReaders(FileHolders holders, RankDisks disks);

  [[nodiscard]] int reader_of(int file, int rank) const;

 private:
  FileHolders holders_;
  std::optional<RankDisks> disks_;
};

/// A block that rank `from` reads for rank `to`. In one round a rank sends at most one block and receives at
/// most one.
struct BlockTransfer {
  BlockPlace place;
  int from = 0;
  int to = 0;
  std::int64_t round = 0;
  bool operator==(const BlockTransfer&) const = default;
};

/// A block that a rank wants of another one.
struct WantedBlock {
  BlockPlace place;
  int from = 0;
};

/// The transfers that bring each rank what it wants, in the order of its list; by round.
[[nodiscard]] std::vector<BlockTransfer> order_transfers(const std::vector<std::vector<WantedBlock>>& wanted);

/// Collective over `comm`. Brings this rank the blocks that it wants of other ranks, one after the other in
/// their order, each proven by its digest, and reads for other ranks from `directory`. `use` is called with
/// each block, which is there until it returns. Holds six blocks of kSavedBlockBytes and the list of all
/// ranks' blocks. If one rank fails, every rank throws its error.
void fetch_blocks(Communicator& comm, const SavedStep& step, const std::filesystem::path& directory,
                  const std::vector<WantedBlock>& wanted, double limit_seconds,
                  const std::function<void(const BlockPlace&, const std::byte*)>& use);

}  // namespace sluice
