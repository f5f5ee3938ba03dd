#include "io/blocks/block_ring.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

BlockRing::BlockRing(std::string what, const Shape& shape, Work work)
    : shape_(shape), work_(std::move(work)), done_(shape.slots, true), workers_(std::move(what)) {
  SLUICE_ASSERT(shape.slots >= 1, "a ring must have slots");
  workers_.start(shape.threads, [this] { return claim(); });
}

void BlockRing::give(std::size_t slots) {
  const Workers::Lock lock = workers_.lock();
  for (std::size_t i = 0; i < slots; ++i) {
    std::vector<bool>::reference done = done_[given_ % done_.size()];
    SLUICE_ASSERT(done || given_ >= shape_.blocks, "the slot of block {} is not free", given_);
    done = false;
    ++given_;
  }
  workers_.notify();
}

Workers::Task BlockRing::claim() {
  if (claimed_ == std::min(given_, shape_.blocks)) return nullptr;
  return [this, block = claimed_++] { do_block(block); };
}

void BlockRing::do_block(std::size_t block) {
  work_(block, block % done_.size());
  const Workers::Lock lock = workers_.lock();
  done_[block % done_.size()] = true;
  ++finished_;
}

bool BlockRing::is_done(std::size_t block) {
  const Workers::Lock lock = workers_.lock();
  workers_.rethrow();
  return is_marked(block);
}

void BlockRing::wait() {
  Workers::Lock lock = workers_.lock();
  static_cast<void>(workers_.wait(lock, [this] { return finished_ == std::min(given_, shape_.blocks); }));
}

}  // namespace sluice
