// Content of an export: names and element types of tensors, in order. Pure.
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

/// A tensor to be written: `target` in the manifest, as numbers or codes; or the scales of such codes; or a
/// tensor copied from the source's files.
struct ExportTensor {
  std::string name;
  DType dtype = DType::kBFloat16;
  /// Place in the manifest, with the written tensor's shape; copied tensors and scales have no ranges.
  KeyTarget target;
  int source = -1;  ///< index of the entry in ExportContent::source; -1: values come from shards or buffers
  StoredPart part = StoredPart::kValues;  ///< what the tensor holds of its weight
  /// Index of the weight in ExportContent::quantised, for codes and scales; -1: neither.
  int weight = -1;

  [[nodiscard]] bool is_copied() const { return source >= 0; }
  [[nodiscard]] std::int64_t bytes() const { return target.element_count() * size_of(dtype); }
};

/// A weight that is written as codes and scales, in tensors of their own.
struct QuantisedWeight {
  std::string name;
  KeyTarget target;
  Encoding encoding;  ///< encoding by codes and scales, without the place of the scales
};

struct ExportContent {
  std::vector<ExportTensor> tensors;
  CheckpointIndex source;  ///< index of the source, from whose files tensors are copied
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

/// Content of the model alone, as KeyMap::published(), with every tensor in `dtype` except persistent
/// buffers.
[[nodiscard]] ExportContent content_of(const KeyMap& keys, ExpertLayout experts, DType dtype);

}  // namespace sluice
