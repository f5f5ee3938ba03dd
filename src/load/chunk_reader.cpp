#include "load/chunk_reader.hpp"

#include "base/log.hpp"
#include "base/round.hpp"
#include "weights/checkpoint_files.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

static_assert(LoadPlan::kBlockBytes % InputFile::kBlockBytes == 0);

std::string_view text_of(FileAccess access, bool was_cached) {
  if (access == FileAccess::kDirect) return "direct reads, as it is not cached";
  if (access == FileAccess::kDropBehind)
    return was_cached ? "cached; read and dropped" : "buffered reads, dropped behind (no direct reads here)";
  return was_cached ? "cached; buffered reads" : "buffered reads, kept in the page cache";
}

}  // namespace

ChunkReader::OpenFile::~OpenFile() {
  if (forget) file.drop_cache(0, file.size_bytes());
}

std::shared_ptr<const ChunkReader::OpenFile> ChunkReader::open(int file) const {
  const CheckpointFile& expected = plan_.files()[static_cast<std::size_t>(file)];
  InputFile buffered = open_source(directory_, expected);
  const bool was_cached = is_mostly_cached(buffered);
  const bool keep = policy_ == CachePolicy::kKeep || (policy_ == CachePolicy::kAuto && was_cached);
  std::optional<InputFile> direct;
  if (!keep && !was_cached) direct = InputFile::open_direct(buffered.path());
  const FileAccess access =
      keep ? FileAccess::kBuffered : (direct ? FileAccess::kDirect : FileAccess::kDropBehind);
  log::info("{}: {}", expected.name, text_of(access, was_cached));
  if (!direct) buffered.advise_sequential();
  return std::make_shared<const OpenFile>(direct ? *std::move(direct) : std::move(buffered), access, !keep);
}

std::shared_ptr<const ChunkReader::OpenFile> ChunkReader::file_of(int file) {
  const std::lock_guard lock(mutex_);
  if (file != chunks_.file) chunks_ = {file, open(file)};
  return chunks_.opened;
}

std::shared_ptr<const ChunkReader::OpenFile> ChunkReader::scales_of(int file) {
  const std::lock_guard lock(mutex_);
  if (file != scales_.file) {
    InputFile opened = open_source(directory_, plan_.files()[static_cast<std::size_t>(file)]);
    const bool keep =
        policy_ == CachePolicy::kKeep || (policy_ == CachePolicy::kAuto && is_mostly_cached(opened));
    opened.advise_random();
    const FileAccess access = keep ? FileAccess::kBuffered : FileAccess::kDropBehind;
    scales_ = {file, std::make_shared<const OpenFile>(std::move(opened), access, !keep)};
  }
  return scales_.opened;
}

void ChunkReader::read_scales(const Chunk& chunk, std::span<std::byte> room) {
  if (chunk.scale_bytes == 0) return;
  plan_.for_each_move_of(chunk, [&](const LoadMove& move) {
    if (move.scale_bytes() == 0) return;
    std::int64_t place = move.scale_source;
    move.encoding->read_scales(move.scales(), [&](int file, std::int64_t offset, std::int64_t count) {
      const std::shared_ptr<const OpenFile> opened = scales_of(file);
      opened->file.read_at(offset,
                           room.subspan(static_cast<std::size_t>(place), static_cast<std::size_t>(count)));
      const std::int64_t before = offset % InputFile::kBlockBytes;
      if (opened->access == FileAccess::kDropBehind) opened->file.drop_cache(offset - before, before + count);
      place += count;
    });
  });
}

LoadedChunk ChunkReader::read(const Chunk& chunk, std::span<std::byte> slot) {
  const std::shared_ptr<const OpenFile> opened = file_of(chunk.file);
  if (opened->access == FileAccess::kDirect) return read_direct(opened->file, chunk, slot);
  const LoadedChunk loaded = read_buffered(opened->file, chunk, slot);
  if (opened->access == FileAccess::kDropBehind) opened->file.drop_cache(chunk.offset, chunk.bytes);
  return loaded;
}

/// Reads whole blocks: those that the chunk touches.
LoadedChunk ChunkReader::read_direct(const InputFile& file, const Chunk& chunk,
                                     std::span<std::byte> slot) const {
  constexpr std::int64_t kBlock = InputFile::kBlockBytes;
  const std::int64_t lead = chunk.offset % kBlock;
  const std::int64_t needed = lead + chunk.bytes;
  const std::int64_t blocks = round_up(needed, kBlock);
  file.read_at_least(needed, chunk.offset - lead, slot.first(static_cast<std::size_t>(blocks)));
  const std::int64_t fetched = std::min(blocks, file.size_bytes() - chunk.offset + lead);
  return {slot.data() + lead, fetched - chunk.bytes, false};
}

/// Reads large moves of this rank into the arena, and the bytes between them into the slot, at their
/// offsets.
LoadedChunk ChunkReader::read_buffered(const InputFile& file, const Chunk& chunk,
                                       std::span<std::byte> slot) const {
  std::int64_t done = 0;
  const auto fill_slot = [&](std::int64_t end) {
    if (end > done)
      file.read_at(chunk.offset + done,
                   slot.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(end - done)));
  };
  if (own_place_) {
    plan_.for_each_move_of(chunk, [&](const LoadMove& move) {
      if (move.rank != chunk.reader || !LoadPlan::is_large(move) || plan_.is_staged(move)) return;
      fill_slot(move.source);
      file.read_at(chunk.offset + move.source, {own_place_(move), static_cast<std::size_t>(move.bytes())});
      done = move.source + move.bytes();
    });
  }
  fill_slot(chunk.bytes);
  return {slot.data(), 0, own_place_ != nullptr};
}

}  // namespace sluice
