// Which tensors shards keep as they were published, as codes and scales, and what is published of each.
#pragma once

#include "encoding/encoding.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class ShardPlan;

/// Elements [begin, begin + count) of a manifest tensor, row-major; the encoding counts them from `element`
/// on.
struct StoredRange {
  int tensor = 0;  ///< index of the tensor in the manifest
  std::int64_t begin = 0;
  std::int64_t count = 0;
  int encoding = 0;  ///< index of the encoding in StoredTensors::encodings
  std::int64_t element = 0;
};

/// The tensors that shards keep as codes and scales. The ranges of each such tensor cover it, each element
/// once; a tensor without a range is kept in the shards' element type.
struct StoredTensors {
  std::vector<Encoding> encodings;
  std::vector<StoredRange> ranges;

  [[nodiscard]] bool is_empty() const { return ranges.empty(); }
  /// Indices of the stored tensors in the manifest, ascending, each once.
  [[nodiscard]] std::vector<int> tensors() const;
  [[nodiscard]] std::int64_t elements() const;
  /// The stored tensors whose codes are not plain elements.
  [[nodiscard]] StoredTensors quantised() const;

  /// Serialized form, for a broadcast to ranks that may not see the files; exact both ways.
  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static StoredTensors from_bytes(std::string_view bytes);
};

/// Bytes of a stored unit on a rank.
struct StoredBytes {
  std::int64_t codes = 0, scales = 0;
  [[nodiscard]] std::int64_t all() const { return codes + scales; }
};

/// Bytes of codes and scales of each unit on each rank, [unit][rank]: 0 for units that are not stored. A
/// scale whose elements two ranks share is counted at both.
[[nodiscard]] std::vector<std::vector<StoredBytes>> stored_bytes(const ShardPlan& plan,
                                                                 const StoredTensors& tensors);

/// Elements of the largest stored unit without experts, which is dequantised while its layer is computed.
[[nodiscard]] std::int64_t largest_stored_dense(const ShardPlan& plan);

/// Elements of the largest expert in the stored units of a rank, which is dequantised while it is used.
[[nodiscard]] std::int64_t largest_stored_expert(const ShardPlan& plan, int rank);

}  // namespace sluice
