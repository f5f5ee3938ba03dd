// Blocks that pass through a ring of slots in order, between the thread that owns the ring and threads that
// read ahead of it or write behind it.
#pragma once

#include "io/blocks/workers.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace sluice {

/// Ring of slots: block i passes through slot i % slots. A slot belongs to the owner or, once given, to the
/// threads until its block is done, so that the memory in flight never exceeds that of the slots.
class BlockRing {
 public:
  static constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();

  /// Function that reads or writes a block; called on the threads, in the order of the blocks if there is one
  /// thread.
  using Work = std::function<void(std::size_t block, std::size_t slot)>;

  struct Shape {
    std::size_t slots = 2;
    int threads = 1;
    std::size_t blocks = kEndless;  ///< number of blocks; later slots that are given are ignored
  };

  /// Starts the threads, which begin with whatever is given; `what` they do is named as in Workers.
  /// Error(kInternal) if the system grants fewer.
  BlockRing(std::string what, const Shape& shape, Work work);

  /// Gives the next slots to the threads, which read or write their blocks; none of them may be in flight.
  void give(std::size_t slots = 1);
  /// Whether a block, which must be the last in its slot, is done. Throws the error of the thread that worked
  /// on it.
  [[nodiscard]] bool is_done(std::size_t block);
  /// Waits until all given blocks are done. Errors as is_done().
  void wait();

 private:
  [[nodiscard]] Workers::Task claim();
  void do_block(std::size_t block);
  [[nodiscard]] bool is_marked(std::size_t block) const {
    return block < claimed_ && done_[block % done_.size()];
  }

  const Shape shape_;
  const Work work_;
  std::vector<bool> done_;  ///< whether the last block of each slot is done
  std::size_t given_ = 0, claimed_ = 0, finished_ = 0;
  Workers workers_;  ///< threads; declared last because they use the other members
};

}  // namespace sluice
