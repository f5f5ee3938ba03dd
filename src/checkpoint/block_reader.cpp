#include "checkpoint/block_reader.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

InputFile open_file(const std::filesystem::path& path, std::int64_t bytes) {
  InputFile file = InputFile::open(path);
  if (file.size_bytes() != bytes)
    fail(ExitCode::kBadData, "{} has {} bytes, and {} when it was saved", path.string(), file.size_bytes(),
         bytes);
  return file;
}

/// "weights of model.norm.weight", or "" for what lies between.
std::string content_at(const SavedFile& file, Range bytes) {
  for (const SavedEntry& entry : file.entries)
    if (entry.offset < bytes.end && entry.offset + entry.bytes() > bytes.begin)
      return fmt::format(", where {} of {} lies", entry.array, entry.tensor);
  return "";
}

}  // namespace

BlockReader::BlockReader(const std::filesystem::path& directory, const SavedFile& file)
    : file_(file),
      in_(open_file(directory / file.name, file.bytes)),
      staging_(allocate(MemoryKind::kPrivate,
                        std::min(kSavedBlockBytes, std::max<std::int64_t>(file.bytes, 1)),
                        "staging of a saved step")) {}

void BlockReader::read(std::int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const std::int64_t block = offset / kSavedBlockBytes, inside = offset % kSavedBlockBytes;
    if (block != loaded_) load(block);
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(out), kSavedBlockBytes - inside));
    std::memcpy(out.data(), staging_.data() + inside, count);
    offset += static_cast<std::int64_t>(count);
    out = out.subspan(count);
  }
}

void BlockReader::verify() {
  for (std::int64_t block = 0; block < std::ssize(file_.blocks); ++block) load(block);
}

void BlockReader::load(std::int64_t block) {
  loaded_ = -1;
  const std::int64_t begin = block * kSavedBlockBytes;
  const std::int64_t bytes = std::min(kSavedBlockBytes, file_.bytes - begin);
  const std::span<std::byte> data(staging_.data(), static_cast<std::size_t>(bytes));
  const bool was_cached = in_.is_cached(begin);
  in_.read_at(begin, data);
  if (!was_cached) in_.drop_cache(begin, bytes);
  if (digest_of(data, 0) != file_.blocks[static_cast<std::size_t>(block)])
    fail(ExitCode::kBadData, "{}: bytes {} to {}{}, are not what was saved", in_.path().string(), begin,
         begin + bytes, content_at(file_, {begin, begin + bytes}));
  loaded_ = block;
}

}  // namespace sluice
