#include "checkpoint/block_stream.hpp"

#include "base/fault.hpp"
#include "comm/position.hpp"

#include <string>
#include <utility>

namespace sluice {
namespace {

class Arrival final : public Pollable {
 public:
  Arrival(ReadAhead& ahead, std::size_t read) : ahead_(ahead), read_(read) {}
  bool test() override { return ahead_.is_ready(read_); }
  [[nodiscard]] std::string missing() const override { return "the disk"; }

 private:
  ReadAhead& ahead_;
  std::size_t read_;
};

}  // namespace

/// Room for a block: there is one for each thread.
class BlockStream::Buffer {
 public:
  explicit Buffer(BlockStream& stream) : stream_(stream) {
    const std::lock_guard lock(stream_.mutex_);
    data_ = stream_.free_.back();
    stream_.free_.pop_back();
  }
  ~Buffer() {
    const std::lock_guard lock(stream_.mutex_);
    stream_.free_.push_back(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {data_, static_cast<std::size_t>(kSavedBlockBytes)};
  }

 private:
  BlockStream& stream_;
  std::byte* data_;
};

BlockStream::BlockStream(const SavedStep& step, const std::filesystem::path& directory,
                         std::vector<BlockPlace> blocks, Use use, int rank, double limit_seconds)
    : step_(step),
      directory_(directory),
      blocks_(std::move(blocks)),
      use_(std::move(use)),
      limit_{"restore", limit_seconds},
      rank_(rank),
      memory_(allocate(MemoryKind::kPrivate, kThreads * kSavedBlockBytes, "blocks of a saved step")),
      free_([this] {
        std::vector<std::byte*> buffers;
        for (int i = 0; i < kThreads; ++i) buffers.push_back(memory_.data() + i * kSavedBlockBytes);
        return buffers;
      }()),
      ahead_(blocks_.size(), kAhead, kThreads, [this](std::size_t read, std::size_t) { handle(read); }) {}

void BlockStream::wait(std::int64_t blocks) {
  for (; blocks > 0 && used_ < blocks_.size(); --blocks) wait_for_next();
}

void BlockStream::wait_for_next() {
  const Operation read{"read", static_cast<std::int64_t>(used_) + 1, rank_};
  position::begin(read.name, read.sequence);
  Arrival arrival(ahead_, used_);
  wait_for(arrival, limit_, read);
  ahead_.release();
  ++used_;
}

/// On the threads.
void BlockStream::handle(std::size_t read) {
  fault_point("checkpoint.read", rank_);
  const BlockPlace& place = blocks_[read];
  const Buffer buffer(*this);
  open(place.file)->load(place.block, buffer.bytes());
  use_(read, buffer.bytes().data());
}

/// On the threads. Those that are in different files open them in turn, which is seldom.
std::shared_ptr<const BlockFile> BlockStream::open(int file) {
  const std::lock_guard lock(mutex_);
  if (file != open_file_)
    file_ = std::make_shared<BlockFile>(directory_, step_.files[static_cast<std::size_t>(file)]);
  open_file_ = file;
  return file_;
}

}  // namespace sluice
