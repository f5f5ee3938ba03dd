#include "checkpoint/block_reader.hpp"

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/round.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace sluice {
namespace {

InputFile open_file(const std::filesystem::path& path, std::int64_t bytes) {
  std::optional<InputFile> direct = InputFile::open_direct(path);
  InputFile file = direct ? std::move(*direct) : InputFile::open(path);
  if (file.size_bytes() != bytes)
    fail({ExitCode::kBadData, "checkpoint.damaged"},
         "{} has {} bytes, expected {} as when it was saved: the file was cut short or changed",
         path.string(), file.size_bytes(), bytes);
  return file;
}

/// Content of a file at some bytes: "weights of model.norm.weight", or "" between entries.
std::string content_at(const SavedFile& file, Range bytes) {
  for (const SavedEntry& entry : file.entries)
    if (entry.offset < bytes.end && entry.offset + entry.bytes() > bytes.begin)
      return fmt::format(", where {} of {} lies", entry.array, entry.tensor);
  return "";
}

}  // namespace

BlockFile::BlockFile(const std::filesystem::path& directory, const SavedFile& file)
    : file_(file), in_(open_file(directory / file.name, file.bytes)) {}

void BlockFile::load(std::int64_t block, std::span<std::byte> out) const {
  const Range range = file_.block_bytes(block);
  const std::int64_t begin = range.begin, bytes = range.count();
  // A direct read takes whole blocks of the disk, and ends with the file.
  in_.read_at_least(bytes, begin,
                    out.first(static_cast<std::size_t>(round_up(bytes, InputFile::kBlockBytes))));
  in_.drop_cache(begin, bytes);
  if (digest_of(out.first(static_cast<std::size_t>(bytes)), 0) !=
      file_.blocks[static_cast<std::size_t>(block)])
    fail({ExitCode::kBadData, "checkpoint.damaged"}, "{}: bytes {} to {}{}, are not what was saved",
         in_.path().string(), begin, range.end, content_at(file_, range));
}

BlockReader::BlockReader(const std::filesystem::path& directory, const SavedFile& file)
    : blocks_(std::ssize(file.blocks)),
      file_(directory, file),
      staging_(allocate(MemoryKind::kPrivate, kSavedBlockBytes, "staging of a checkpoint")) {}

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
  for (std::int64_t block = 0; block < blocks_; ++block) load(block);
}

void BlockReader::load(std::int64_t block) {
  loaded_ = -1;
  file_.load(block, {staging_.data(), static_cast<std::size_t>(kSavedBlockBytes)});
  loaded_ = block;
}

}  // namespace sluice
