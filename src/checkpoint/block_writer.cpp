#include "checkpoint/block_writer.hpp"

#include "base/fault.hpp"
#include "checkpoint/saved_step.hpp"

#include <algorithm>
#include <cstring>

namespace sluice {

BlockWriter::BlockWriter(const std::filesystem::path& path, int rank)
    : file_(OutputFile::create(path)),
      rank_(rank),
      staging_(allocate(MemoryKind::kPrivate, kSavedBlockBytes, "staging of a saved step")) {}

void BlockWriter::append(std::span<const std::byte> data) {
  while (!data.empty()) {
    if (filled_ == 0 && std::ssize(data) >= kSavedBlockBytes) {
      emit(data.first(kSavedBlockBytes));
      data = data.subspan(kSavedBlockBytes);
      continue;
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(data), kSavedBlockBytes - filled_));
    std::memcpy(staging_.data() + filled_, data.data(), count);
    filled_ += static_cast<std::int64_t>(count);
    data = data.subspan(count);
    if (filled_ < kSavedBlockBytes) continue;
    filled_ = 0;
    emit({staging_.data(), static_cast<std::size_t>(kSavedBlockBytes)});
  }
}

/// The block before is on its way to disk meanwhile, and is then dropped from the page cache.
void BlockWriter::emit(std::span<const std::byte> block) {
  fault_point("checkpoint.write", rank_);
  digests_.push_back(digest_of(block, 0));
  file_.write_at(written_, block);
  file_.start_writeback(written_, std::ssize(block));
  if (written_ > 0) file_.drop_written(written_ - kSavedBlockBytes, kSavedBlockBytes);
  written_ += std::ssize(block);
}

void BlockWriter::close() {
  if (filled_ > 0) emit({staging_.data(), static_cast<std::size_t>(std::exchange(filled_, 0))});
  fault_point("checkpoint.sync", rank_);
  const std::int64_t last = written_ % kSavedBlockBytes == 0 ? kSavedBlockBytes : written_ % kSavedBlockBytes;
  file_.drop_written(std::max<std::int64_t>(0, written_ - last), std::min(last, written_));
  file_.close();
}

}  // namespace sluice
