// The digest of a tensor: the same for the same bytes, however many ranks and pieces they come in.
//
//   block i   bytes [4096 i, 4096 (i + 1)) of the tensor in its file's element type; the last may be shorter
//   digest    the sum over all blocks of XXH3-128(block i, seed i), modulo 2^128
#pragma once

#include "base/digest.hpp"
#include "base/range.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

inline constexpr std::int64_t kDigestBlockBytes = 4096;

/// Digests one tensor whose bytes come in pieces, in any order. Keeps the blocks that are not complete yet:
/// one if the pieces follow each other.
class TensorDigester {
 public:
  explicit TensorDigester(std::int64_t tensor_bytes) : tensor_bytes_(tensor_bytes) {}

  /// Adds bytes [offset, offset + bytes.size()) of the tensor, each byte once. Error(kInternal) for bytes
  /// outside of the tensor.
  void add(std::int64_t offset, std::span<const std::byte> bytes);

  /// Sum over the complete blocks: the digest, once every byte was added.
  [[nodiscard]] const Digest& sum() const { return sum_; }

  /// Bytes of a block that another digester must complete.
  struct Fragment {
    std::int64_t offset = 0;  ///< place in the tensor of the fragment's first byte
    std::string bytes;
  };
  /// Bytes that were added without completing a block; sums and fragments of all digesters make up the
  /// digest.
  [[nodiscard]] std::vector<Fragment> fragments() const;

 private:
  struct OpenBlock {
    std::int64_t number = 0;
    std::int64_t held_bytes = 0;
    std::vector<Range> held;  ///< ranges of bytes of the block that were added
    std::array<std::byte, kDigestBlockBytes> bytes;
  };
  [[nodiscard]] std::int64_t block_bytes(std::int64_t block) const;
  void keep(std::int64_t block, std::int64_t begin, std::span<const std::byte> bytes);

  std::int64_t tensor_bytes_;
  Digest sum_;
  std::vector<OpenBlock> open_;
};

}  // namespace sluice
