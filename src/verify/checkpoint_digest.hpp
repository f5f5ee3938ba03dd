// Digests of a checkpoint's tensors, read from its files through a small buffer.
#pragma once

#include "base/bytes.hpp"
#include "base/digest.hpp"
#include "base/dtype.hpp"
#include "manifest/manifest.hpp"
#include "verify/content_parts.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/entry_reader.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Digest of one tensor under its plain_name() and in the shape of the per-expert layout (ContentPart): the
/// same for every wrapper, spelling, layout and sharding of a checkpoint.
struct PublishedDigest {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Digest digest;                       ///< digest of the content, see verify/tensor_digest.hpp
  std::int64_t non_finite = 0;         ///< number of elements that are infinite or NaN
  int entry = 0;                       ///< index of the entry that holds the part
  std::int64_t first_non_finite = -1;  ///< number of the first such element in this shape; -1: none

  /// Digest of name, element type, shape and content. Sums of identities do not depend on the order of
  /// tensors.
  [[nodiscard]] Digest identity() const;
};

/// Every tensor of a checkpoint, in the order of its files; of a model whose `manifest` is known as its
/// family publishes it, else (null) by names and shapes. Calls `progress`, which may be empty, with the bytes
/// done so far. Error(kBadData) if a file was changed since the index was read.
[[nodiscard]] std::vector<PublishedDigest> digest_checkpoint(
    const CheckpointIndex& index, const std::filesystem::path& directory, const ParameterManifest* manifest,
    const std::function<void(std::int64_t done_bytes)>& progress);

/// Reads and digests tensors of one checkpoint, best in the order of its files. Files that were not in the
/// page cache are dropped from it.
class PartReader {
 public:
  /// Bytes per read. Staging is one slice, and at most two per conversion for two conversions; for quantised
  /// weights another 1 MiB of codes.
  static constexpr std::int64_t kSliceBytes = kMiB;
  /// Bytes of the strips of columns in which a transposed matrix is read. A strip and its transpose are held
  /// at once.
  static constexpr std::int64_t kStripBytes = 32 * kMiB;

  /// `index` must outlive the reader.
  PartReader(const CheckpointIndex& index, std::filesystem::path directory);

  struct Result {
    Digest digest;
    std::int64_t non_finite = 0;         ///< number of NaN and infinities before any conversion
    std::int64_t first_non_finite = -1;  ///< number of the first such element in the part; -1: none
  };
  /// Digests a part of an entry, with its elements converted to each of the types `via` in turn.
  [[nodiscard]] Result digest(const CheckpointEntry& entry, const ContentPart& part,
                              std::span<const DType> via = {});

 private:
  /// Function that takes elements of a part from element `begin` on.
  using Take = std::function<void(std::int64_t begin, const std::byte* data, std::int64_t count)>;
  void read_straight(const CheckpointEntry& entry, const PartRange& run, const Take& take);
  void read_transposed(const CheckpointEntry& entry, const ContentPart& part, const Take& take);
  /// `count` elements at `data` after the conversions, in a buffer that is valid until the next call.
  [[nodiscard]] const std::byte* convert(const std::byte* data, DType dtype, std::span<const DType> via,
                                         std::int64_t count);
  EntryReader reader_;
  std::vector<std::byte> slice_, strip_;
  std::array<std::vector<std::byte>, 2> converted_;
};

}  // namespace sluice
