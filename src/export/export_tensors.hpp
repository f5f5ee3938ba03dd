// Content of a directory that is to be written: names and element types, in order. Pure.
#pragma once

#include "encoding/encoding.hpp"
#include "export/stored_form.hpp"
#include "manifest/key_map.hpp"
#include "weights/checkpoint_index.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A tensor to be written: `target` of the manifest, in numbers or as codes; the scales of such codes; or a
/// tensor of the source's files.
struct ExportTensor {
  std::string name;
  DType dtype = DType::kBFloat16;
  /// Place in the manifest, with the written tensor's shape; a copied tensor and scales have no ranges.
  KeyTarget target;
  int source = -1;  ///< entry of ExportContent::source; -1: the values come from the shards or the buffers
  StoredPart part = StoredPart::kValues;  ///< part of the weight that codes and scales stand for
  int weight = -1;                        ///< index in ExportContent::quantised of codes and scales

  [[nodiscard]] bool is_copied() const { return source >= 0; }
  [[nodiscard]] std::int64_t bytes() const { return target.element_count() * size_of(dtype); }
};

/// A weight that is written as codes and scales, which are tensors of their own.
struct QuantisedWeight {
  std::string name;
  KeyTarget target;
  Encoding encoding;  ///< encoding by codes and scales, without the place of the scales
};

struct ExportContent {
  std::vector<ExportTensor> tensors;
  CheckpointIndex source;  ///< index of the source, whose files tensors are copied from
  std::vector<QuantisedWeight> quantised{};
};

/// Content of `source`, which must match the manifest (match_checkpoint()), in its order, names and element
/// types, persistent buffers in float32; parts that training ignores (vision tower, multi-token prediction)
/// are copied, stored ties and computed buffers left out. With `experts`, experts are written in that layout,
/// whatever the source's.
[[nodiscard]] ExportContent content_like(const CheckpointIndex& source, const KeyMap& keys,
                                         std::optional<ExpertLayout> experts);

/// Content of a source in the form that it has: of what `changes` is false of, a tensor of the manifest, every
/// tensor of its files as it is, quantised or not, multi-token prediction and scales of activations with it;
/// of the others FP8 codes and scales as they were, by the formula of quantise(), or the source's element
/// type. `source` must match the manifest, and `stored` is the index of the same files with
/// QuantisedAs::kStored. Stored ties of what is changed are left out. Error(kBadConfig) if quantised weights
/// are changed that are not FP8.
[[nodiscard]] ExportContent content_as_stored(const CheckpointIndex& source, const CheckpointIndex& stored,
                                              const KeyMap& keys,
                                              const std::function<bool(int tensor)>& changes);

/// The model alone, as KeyMap::published(), every tensor in `dtype` but for persistent buffers.
[[nodiscard]] ExportContent content_of(const KeyMap& keys, ExpertLayout experts, DType dtype);

}  // namespace sluice
