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

void ChunkReader::read_scales(const Read& read, std::span<std::byte> room) {
  if (read.scale_bytes == 0) return;
  plan_.for_each_piece(read, [&](const Piece& piece) {
    const std::int64_t bytes = piece.scale_bytes();
    if (bytes == 0) return;
    const Encoding& encoding = *piece.encoding;
    const std::shared_ptr<const OpenFile> opened = scales_of(encoding.scale_file);
    const std::int64_t offset = encoding.scale_begin + encoding.scale_bytes({0, piece.scales().begin});
    opened->file.read_at(
        offset, room.subspan(static_cast<std::size_t>(piece.scale_source), static_cast<std::size_t>(bytes)));
    const std::int64_t before = offset % InputFile::kBlockBytes;
    if (opened->access == FileAccess::kDropBehind) opened->file.drop_cache(offset - before, before + bytes);
  });
}

Chunk ChunkReader::read(const Read& read, std::span<std::byte> slot) {
  const std::shared_ptr<const OpenFile> opened = file_of(read.file);
  if (opened->access == FileAccess::kDirect) return read_direct(opened->file, read, slot);
  const Chunk chunk = read_buffered(opened->file, read, slot);
  if (opened->access == FileAccess::kDropBehind) opened->file.drop_cache(read.offset, read.bytes);
  return chunk;
}

/// Reads whole blocks: those that the read touches.
Chunk ChunkReader::read_direct(const InputFile& file, const Read& read, std::span<std::byte> slot) const {
  constexpr std::int64_t kBlock = InputFile::kBlockBytes;
  const std::int64_t lead = read.offset % kBlock;
  const std::int64_t needed = lead + read.bytes;
  const std::int64_t blocks = round_up(needed, kBlock);
  file.read_at_least(needed, read.offset - lead, slot.first(static_cast<std::size_t>(blocks)));
  const std::int64_t fetched = std::min(blocks, file.size_bytes() - read.offset + lead);
  return {slot.data() + lead, fetched - read.bytes, false};
}

/// Reads large pieces of this rank into the arena, and the bytes between them into the slot, at their
/// offsets.
Chunk ChunkReader::read_buffered(const InputFile& file, const Read& read, std::span<std::byte> slot) const {
  std::int64_t done = 0;
  const auto fill_slot = [&](std::int64_t end) {
    if (end > done)
      file.read_at(read.offset + done,
                   slot.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(end - done)));
  };
  if (own_place_) {
    plan_.for_each_piece(read, [&](const Piece& piece) {
      if (piece.rank != read.reader || !LoadPlan::is_large(piece) || plan_.is_staged(piece)) return;
      fill_slot(piece.source);
      file.read_at(read.offset + piece.source, {own_place_(piece), static_cast<std::size_t>(piece.bytes())});
      done = piece.source + piece.bytes();
    });
  }
  fill_slot(read.bytes);
  return {slot.data(), 0, own_place_ != nullptr};
}

}  // namespace sluice
