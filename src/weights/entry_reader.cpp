#include "weights/entry_reader.hpp"

#include "base/bytes.hpp"
#include "encoding/dequantise.hpp"
#include "weights/checkpoint_files.hpp"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kCodeBytes = kMiB;

/// The first `bytes` bytes of a buffer, which grows to the largest request.
std::span<std::byte> room_in(std::vector<std::byte>& buffer, std::int64_t bytes) {
  buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(bytes)));
  return std::span(buffer).first(static_cast<std::size_t>(bytes));
}

}  // namespace

EntryReader::EntryReader(const CheckpointIndex& index, std::filesystem::path directory, SourcePages pages)
    : index_(index), directory_(std::move(directory)), pages_(pages) {}

void EntryReader::read(const CheckpointEntry& entry, Range elements, std::span<std::byte> out) {
  const std::int64_t size = size_of(entry.dtype);
  const Encoding* const encoding = index_.encoding_of(entry);
  if (encoding == nullptr) return read(elements_, entry.file, entry.begin + elements.begin * size, out);
  const std::int64_t most = kCodeBytes * 8 / bits_of(encoding->codes);
  for (std::int64_t at = elements.begin; at < elements.end; at += most)
    decode(entry, *encoding, {at, std::min(at + most, elements.end)},
           out.data() + (at - elements.begin) * size);
}

void EntryReader::decode(const CheckpointEntry& entry, const Encoding& encoding, Range elements,
                         std::byte* out) {
  const std::span<std::byte> codes = room_in(code_bytes_, encoding.code_bytes(elements.count()));
  const Range needed = encoding.scales_of(elements);
  const std::span<std::byte> scales = room_in(scale_bytes_, encoding.scale_bytes(needed));
  read(elements_, entry.file, entry.begin + encoding.code_bytes(elements.begin), codes);
  std::size_t done = 0;
  encoding.read_scales(needed, [&](int file, std::int64_t offset, std::int64_t bytes) {
    read(scales_, file, offset, scales.subspan(done, static_cast<std::size_t>(bytes)));
    done += static_cast<std::size_t>(bytes);
  });
  dequantise(encoding, elements, codes.data(), scales.data(), entry.dtype, out);
}

void EntryReader::read(std::optional<OpenFile>& source, int file, std::int64_t offset,
                       std::span<std::byte> out) {
  if (!source || source->number != file) {
    InputFile opened = open_source(directory_, index_.files[static_cast<std::size_t>(file)]);
    const bool drops =
        pages_ == SourcePages::kDrop || (pages_ == SourcePages::kAsFound && !is_mostly_cached(opened));
    opened.advise_sequential();
    source = OpenFile{std::move(opened), file, drops};
  }
  source->file.read_at(offset, out);
  // The kernel drops only whole pages, so the range begins at a page boundary.
  const std::int64_t before = offset % InputFile::kBlockBytes;
  if (source->drops) source->file.drop_cache(offset - before, before + std::ssize(out));
}

}  // namespace sluice
