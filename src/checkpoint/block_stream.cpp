#include "checkpoint/block_stream.hpp"

#include "base/fault.hpp"
#include "comm/position.hpp"

#include <string>
#include <utility>

namespace sluice {

BlockStream::BlockStream(const SavedStep& step, const std::filesystem::path& directory,
                         std::vector<BlockPlace> blocks, int rank, double limit_seconds)
    : step_(step),
      directory_(directory),
      blocks_(std::move(blocks)),
      limit_{"restore", limit_seconds},
      rank_(rank),
      ring_(allocate(MemoryKind::kPrivate, kSlots * kSavedBlockBytes, "blocks of a checkpoint")),
      ahead_("reads a checkpoint", {kSlots, kThreads, blocks_.size()},
             [this](std::size_t read, std::size_t slot) { fill(read, slot); }) {
  ahead_.give(kSlots);
}

const std::byte* BlockStream::block(const BlockPlace& place) {
  if (!is_open_) wait_for_current();
  while (blocks_[current_] != place) {
    ahead_.give();
    ++current_;
    wait_for_current();
  }
  return slot(current_ % kSlots).data();
}

void BlockStream::wait_for_current() {
  const Operation read{"read", static_cast<std::int64_t>(current_) + 1, rank_};
  position::begin(read.name, read.sequence);
  wait_for([this] { return ahead_.is_done(current_); }, [] { return std::string("the disk"); }, limit_, read);
  is_open_ = true;
}

std::span<std::byte> BlockStream::slot(std::size_t index) const {
  constexpr auto kBytes = static_cast<std::size_t>(kSavedBlockBytes);
  return {ring_.data() + index * kBytes, kBytes};
}

/// Reads a block; called on the reading threads.
void BlockStream::fill(std::size_t read, std::size_t index) {
  fault_point("checkpoint.read", rank_);
  const BlockPlace& place = blocks_[read];
  open(place.file)->load(place.block, slot(index));
}

/// Opens a file; called on the reading threads. Two threads that need different files open them in turn,
/// which is rare.
std::shared_ptr<const BlockFile> BlockStream::open(int file) {
  const std::lock_guard lock(mutex_);
  if (file != open_file_)
    file_ = std::make_shared<BlockFile>(directory_, step_.files[static_cast<std::size_t>(file)]);
  open_file_ = file;
  return file_;
}

}  // namespace sluice
