#include "checkpoint/block_writer.hpp"

#include "base/fault.hpp"
#include "base/round.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace sluice {
namespace {

OutputFile create_file(const std::filesystem::path& path, bool& is_direct) {
  std::optional<OutputFile> direct = OutputFile::create_direct(path);
  is_direct = direct.has_value();
  return direct ? std::move(*direct) : OutputFile::create(path);
}

}  // namespace

BlockWriter::BlockWriter(const std::filesystem::path& path, int rank)
    : file_(create_file(path, is_direct_)),
      rank_(rank),
      staging_(allocate(MemoryKind::kPrivate, 2 * kSavedBlockBytes, "staging of a saved step")) {}

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

/// The block before may still be on its way.
void BlockWriter::emit() {
  fault_point("checkpoint.write", rank_);
  const std::span<const std::byte> block(filling(), static_cast<std::size_t>(filled_));
  digests_.push_back(digest_of(block, 0));
  if (writing_.valid()) writing_.get();
  writing_ = std::async(std::launch::async, [this, offset = written_, block] { write(offset, block); });
  written_ += std::exchange(filled_, 0);
}

/// What goes through the page cache does not stay there.
void BlockWriter::write(std::int64_t offset, std::span<const std::byte> block) {
  const std::int64_t bytes = std::ssize(block);
  if (is_direct_) {
    const auto whole = static_cast<std::size_t>(round_up(bytes, InputFile::kBlockBytes));
    return file_.write_at(offset, {block.data(), whole});
  }
  file_.write_at(offset, block);
  file_.start_writeback(offset, bytes);
  if (offset > 0) file_.drop_written(offset - kSavedBlockBytes, kSavedBlockBytes);
}

void BlockWriter::close() {
  if (filled_ > 0) emit();
  if (writing_.valid()) writing_.get();
  fault_point("checkpoint.sync", rank_);
  if (is_direct_) {
    file_.resize(written_);  // behind the last block of the disk
  } else {
    const std::int64_t last = (written_ - 1) / kSavedBlockBytes * kSavedBlockBytes;
    file_.drop_written(last, written_ - last);
  }
  file_.close();
}

}  // namespace sluice
