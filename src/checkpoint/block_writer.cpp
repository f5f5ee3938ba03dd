#include "checkpoint/block_writer.hpp"

#include "base/fault.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice {

BlockWriter::BlockWriter(const std::filesystem::path& path, int rank)
    : rank_(rank),
      staging_(allocate(MemoryKind::kPrivate, kStagingBytes, "staging of a checkpoint")),
      file_(path, WriteBehind::Target::kNewFile, kSavedBlockBytes) {}

void BlockWriter::append(std::span<const std::byte> data) {
  while (!data.empty()) {
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(data), kSavedBlockBytes - filled_));
    std::memcpy(filling() + filled_, data.data(), count);
    filled_ += static_cast<std::int64_t>(count);
    data = data.subspan(count);
    if (filled_ == kSavedBlockBytes) emit();
  }
}

/// Hands a full block to the writing thread; the block before may still be in flight.
void BlockWriter::emit() {
  fault_point("checkpoint.write", rank_);
  const std::span<const std::byte> block(filling(), static_cast<std::size_t>(filled_));
  digests_.push_back(digest_of(block, 0));
  file_.write({written_, block});
  written_ += std::exchange(filled_, 0);
}

void BlockWriter::close() {
  if (filled_ > 0) emit();
  fault_point("checkpoint.sync", rank_);
  file_.close();
}

}  // namespace sluice
