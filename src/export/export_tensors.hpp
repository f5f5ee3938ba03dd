// Content of a directory that is to be written: names and element types, in order. Pure.
#pragma once

#include "manifest/key_map.hpp"
#include "weights/checkpoint_index.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A tensor to be written: `target` of the manifest, or a tensor of the source's files as it is; quantised
/// weights as bfloat16.
struct ExportTensor {
  std::string name;
  DType dtype = DType::kBFloat16;
  /// Place in the manifest, with the written tensor's shape; a copied tensor has no ranges.
  KeyTarget target;
  int source = -1;  ///< entry of ExportContent::source; -1: the values come from the shards or the buffers

  [[nodiscard]] bool is_copied() const { return source >= 0; }
  [[nodiscard]] std::int64_t bytes() const { return target.element_count() * size_of(dtype); }
};

struct ExportContent {
  std::vector<ExportTensor> tensors;
  CheckpointIndex source;  ///< index of the source, whose files tensors are copied from
};

/// Content of `source`, which must match the manifest (match_checkpoint()), in its order, names and element
/// types, persistent buffers in float32; parts that training ignores (vision tower, multi-token prediction)
/// are copied, stored ties and computed buffers left out. With `experts`, experts are written in that layout,
/// whatever the source's.
[[nodiscard]] ExportContent content_like(const CheckpointIndex& source, const KeyMap& keys,
                                         std::optional<ExpertLayout> experts);

/// The model alone, as KeyMap::published(), every tensor in `dtype` but for persistent buffers.
[[nodiscard]] ExportContent content_of(const KeyMap& keys, ExpertLayout experts, DType dtype);

}  // namespace sluice
