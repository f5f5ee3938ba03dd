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

/// Block i passes through slot i % slots. A slot belongs to the owner or, once it is given, to the threads,
/// until its block is done: so the memory that is under way never exceeds that of the slots.
class BlockRing {
 public:
  static constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();

  /// Reads or writes a block; called on the threads, in the order of the blocks if there is one thread.
  using Work = std::function<void(std::size_t block, std::size_t slot)>;

  struct Shape {
    std::size_t slots = 2;
    int threads = 1;
    std::size_t blocks = kEndless;  ///< nothing is done of those from this number on
  };

  /// The threads begin with whatever is given; `what` they do is as in Workers. Error(kInternal) if the
  /// system grants fewer.
  BlockRing(std::string what, const Shape& shape, Work work);

  /// Gives the threads the next slots, whose blocks are to be read or written; none of them may still be
  /// under way.
  void give(std::size_t slots = 1);
  /// Whether a block is done, which is one of those that were last in their slots. Throws the error of the
  /// thread that did one.
  [[nodiscard]] bool is_done(std::size_t block);
  /// Waits until all that was given is done. Errors as is_done().
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
  Workers workers_;  ///< last: they use the rest
};

}  // namespace sluice
