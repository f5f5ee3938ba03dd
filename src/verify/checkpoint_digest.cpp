#include "verify/checkpoint_digest.hpp"

#include "base/text.hpp"
#include "verify/tensor_digest.hpp"
#include "weights/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice {

namespace fs = std::filesystem;

Digest PublishedDigest::identity() const {
  return digest_of(fmt::format("{} {} {} {}", name, name_of(dtype), shape_text(shape), digest.hex()));
}

std::vector<PublishedDigest> digest_checkpoint(const CheckpointIndex& index, const fs::path& directory,
                                               const std::function<void(std::int64_t)>& progress) {
  PartReader reader(index, directory);
  std::vector<PublishedDigest> digests;
  std::int64_t done = 0;
  for (int i = 0; i < static_cast<int>(index.entries.size()); ++i) {
    const CheckpointEntry& entry = index.entries[static_cast<std::size_t>(i)];
    for (PerExpertPart& part : parts_of(entry)) {
      const PartReader::Result result = reader.digest(entry, part);
      done += element_count(part.shape) * size_of(entry.dtype);
      digests.push_back(
          {std::move(part.name), entry.dtype, std::move(part.shape), result.digest, result.non_finite, i});
      if (progress) progress(done);
    }
  }
  return digests;
}

std::vector<PerExpertPart> parts_of(const CheckpointEntry& entry) {
  return per_expert_parts(plain_name(entry.name), entry.shape);
}

PartReader::PartReader(const CheckpointIndex& index, fs::path directory)
    : index_(index), directory_(std::move(directory)), slice_(static_cast<std::size_t>(kSliceBytes)) {}

PartReader::Result PartReader::digest(const CheckpointEntry& entry, const PerExpertPart& part,
                                      std::span<const DType> via) {
  if (entry.file != open_) open(entry.file);
  const std::int64_t size = size_of(entry.dtype);
  const std::int64_t target_size = size_of(via.empty() ? entry.dtype : via.back());
  const std::int64_t elements = element_count(part.shape);
  const std::int64_t offset = entry.begin + part.begin * size;
  TensorDigester digester(elements * target_size);
  Result result;
  for (std::int64_t done = 0; done < elements;) {
    const std::int64_t count = std::min(kSliceBytes / size, elements - done);
    const std::span<std::byte> slice = std::span(slice_).first(static_cast<std::size_t>(count * size));
    read(offset + done * size, slice);
    result.non_finite += count_non_finite(slice.data(), entry.dtype, count);
    const std::byte* data = convert(slice.data(), entry.dtype, via, count);
    digester.add(done * target_size, {data, static_cast<std::size_t>(count * target_size)});
    done += count;
  }
  result.digest = digester.sum();
  return result;
}

void PartReader::read(std::int64_t offset, std::span<std::byte> out) {
  constexpr std::int64_t kPage = 4096;
  file_->read_at(offset, out);
  // From a page boundary: the kernel drops only whole pages.
  const std::int64_t before = offset % kPage;
  if (drop_) file_->drop_cache(offset - before, before + static_cast<std::int64_t>(out.size()));
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

void PartReader::open(int file) {
  file_ = open_source(directory_, index_.files[static_cast<std::size_t>(file)]);
  open_ = file;
  drop_ = !is_mostly_cached(*file_);
  file_->advise_sequential();
}

}  // namespace sluice
