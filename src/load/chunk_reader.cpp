#include "load/chunk_reader.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {
namespace {

constexpr std::int64_t kSliceBytes = kMiB;

/// Whether most of a file is in the page cache, by looking at a few places.
bool is_mostly_cached(const InputFile& file) {
  constexpr int kPlaces = 16;
  int cached = 0;
  for (int i = 0; i < kPlaces; ++i)
    if (file.is_cached(file.size_bytes() / kPlaces * i)) ++cached;
  return cached > kPlaces / 2;
}

}  // namespace

void ChunkReader::open(int file) {
  const CheckpointFile& expected = plan_.files()[static_cast<std::size_t>(file)];
  file_ = InputFile::open(directory_ / expected.name);
  open_ = file;
  if (file_->size_bytes() != expected.bytes)
    fail(ExitCode::kBadData, "{} has {} bytes, but had {} when its header was read: it was changed meanwhile",
         file_->path().string(), file_->size_bytes(), expected.bytes);
  drop_ = policy_ == CachePolicy::kDrop || (policy_ == CachePolicy::kAuto && !is_mostly_cached(*file_));
  file_->advise_sequential();
}

void ChunkReader::read(const Read& read, std::span<std::byte> out, const std::function<void()>& between) {
  if (read.file != open_) open(read.file);
  for (std::int64_t done = 0; done < read.bytes;) {
    const std::int64_t slice = std::min(kSliceBytes, read.bytes - done);
    file_->read_at(read.offset + done,
                   out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(slice)));
    done += slice;
    between();
  }
  if (drop_) file_->drop_cache(read.offset, read.bytes);
}

}  // namespace sluice
