#include "verify/checkpoint_digest.hpp"

#include "base/boxes/transpose.hpp"
#include "base/text.hpp"
#include "manifest/key_map.hpp"
#include "verify/tensor_digest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace sluice {

namespace fs = std::filesystem;

namespace {

/// Index of the first of `count` elements that is infinite or NaN; there must be one.
std::int64_t first_non_finite(const std::byte* data, DType dtype, std::int64_t count) {
  std::int64_t at = 0;
  while (at < count && count_non_finite(data + at * size_of(dtype), dtype, 1) == 0) ++at;
  return at;
}

/// Parts of an entry by the model's family, or by its name and shape if the family does not know it.
std::vector<ContentPart> parts_of(const CheckpointIndex& index, int number,
                                  const ParameterManifest* manifest) {
  const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(number)];
  if (manifest != nullptr) {
    const auto target = KeyMap(*manifest).resolve(entry.name, index.encoding_of(entry) != nullptr);
    const auto* key = std::get_if<KeyTarget>(&target);
    if (key != nullptr && key->shape == entry.shape) return content_parts(*manifest, ranges_of(number, *key));
  }
  return content_parts(entry);
}

}  // namespace

Digest PublishedDigest::identity() const {
  return digest_of(fmt::format("{} {} {} {}", name, name_of(dtype), shape_text(shape), digest.hex()));
}

std::vector<PublishedDigest> digest_checkpoint(const CheckpointIndex& index, const fs::path& directory,
                                               const ParameterManifest* manifest,
                                               const std::function<void(std::int64_t)>& progress) {
  PartReader reader(index, directory);
  std::vector<PublishedDigest> digests;
  std::int64_t done = 0;
  for (int i = 0; i < static_cast<int>(index.entries.size()); ++i) {
    const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(i)];
    for (ContentPart& part : parts_of(index, i, manifest)) {
      const PartReader::Result result = reader.digest(entry, part);
      done += index.bytes_of(entry, part.count());
      digests.push_back({std::move(part.name), entry.dtype, std::move(part.shape), result.digest,
                         result.non_finite, i, result.first_non_finite});
      if (progress) progress(done);
    }
  }
  return digests;
}

PartReader::PartReader(const CheckpointIndex& index, fs::path directory)
    : reader_(index, std::move(directory)), slice_(static_cast<std::size_t>(kSliceBytes)) {}

PartReader::Result PartReader::digest(const CheckpointEntry& entry, const ContentPart& part,
                                      std::span<const DType> via) {
  const std::int64_t size = size_of(via.empty() ? entry.dtype : via.back());
  TensorDigester digester(part.count() * size);
  Result result;
  const Take take = [&](std::int64_t begin, const std::byte* data, std::int64_t count) {
    const std::int64_t bad = count_non_finite(data, entry.dtype, count);
    if (bad > 0 && result.non_finite == 0)
      result.first_non_finite = begin + first_non_finite(data, entry.dtype, count);
    result.non_finite += bad;
    digester.add(begin * size,
                 {convert(data, entry.dtype, via, count), static_cast<std::size_t>(count * size)});
  };
  if (part.is_transposed)
    read_transposed(entry, part, take);
  else
    for (const PartRange& run : part.runs) read_straight(entry, run, take);
  result.digest = digester.sum();
  return result;
}

void PartReader::read_straight(const CheckpointEntry& entry, const PartRange& run, const Take& take) {
  const std::int64_t size = size_of(entry.dtype);
  for (std::int64_t done = 0, count = 0; done < run.count; done += count) {
    count = std::min(kSliceBytes / size, run.count - done);
    const std::int64_t begin = run.entry_begin + done;
    reader_.read(entry, {begin, begin + count},
                 std::span(slice_).first(static_cast<std::size_t>(count * size)));
    take(run.part_begin + done, slice_.data(), count);
  }
}

void PartReader::read_transposed(const CheckpointEntry& entry, const ContentPart& part, const Take& take) {
  const std::int64_t size = size_of(entry.dtype);
  // Rows and columns of the file's shape, which is transposed.
  const std::int64_t rows = part.shape[1], columns = part.shape[0];
  const std::int64_t most = std::clamp<std::int64_t>(kStripBytes / (rows * size), 1, columns);
  const std::int64_t at_once = std::clamp<std::int64_t>(kSliceBytes / (rows * size), 1, most);
  strip_.resize(static_cast<std::size_t>(rows * most * size));
  slice_.resize(std::max(slice_.size(), static_cast<std::size_t>(at_once * rows * size)));
  for (std::int64_t column = 0; column < columns; column += most) {
    const std::int64_t width = std::min(most, columns - column);
    // Number of lines that follow each other in the file.
    const std::int64_t lines = width == columns ? rows : 1;
    for (std::int64_t row = 0; row < rows; row += lines) {
      const std::int64_t begin = part.runs.front().entry_begin + row * columns + column;
      reader_.read(entry, {begin, begin + lines * width},
                   std::span(strip_).subspan(static_cast<std::size_t>(row * width * size),
                                             static_cast<std::size_t>(lines * width * size)));
    }
    for (std::int64_t first = 0; first < width; first += at_once) {
      const std::int64_t count = std::min(at_once, width - first);
      transpose_elements({strip_.data() + first * size, entry.dtype, width}, rows, count,
                         {slice_.data(), entry.dtype, rows});
      take((column + first) * rows, slice_.data(), count * rows);
    }
  }
}

const std::byte* PartReader::convert(const std::byte* data, DType dtype, std::span<const DType> via,
                                     std::int64_t count) {
  for (std::size_t i = 0; i < via.size(); ++i) {
    std::vector<std::byte>& out = converted_[i % converted_.size()];
    out.resize(std::max(out.size(), static_cast<std::size_t>(count * size_of(via[i]))));
    convert_elements(data, dtype, out.data(), via[i], count);
    data = out.data();
    dtype = via[i];
  }
  return data;
}

}  // namespace sluice
