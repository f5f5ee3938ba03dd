// Tensors in which a published weight is stored, as a quantization_config says. Pure.
#pragma once

#include "encoding/encoding.hpp"
#include "io/safetensors.hpp"
#include "manifest/key_map.hpp"
#include "model/quantization_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// What a stored tensor holds of a published one.
enum class StoredPart : std::uint8_t { kValues, kCodes, kScales, kTensorScale, kShape };

struct StoredTensor {
  std::string name;
  DType dtype = DType::kBFloat16;
  std::vector<std::int64_t> shape;
  StoredPart part = StoredPart::kValues;
};

struct StoredForm {
  /// Place of the values in the manifest; those of codes are never transposed.
  KeyTarget target;
  std::optional<Encoding> encoding;  ///< encoding by codes and scales, without the place of the scales
  std::vector<StoredTensor> tensors;
};

/// Projections of layers become FP8, in the blocks that `config` names or with a scale for each row;
/// projections of routed experts INT4 with bfloat16 scales, in groups of what `config` names or 32, MXFP4 or
/// NVFP4. Of several forms the one that `config` announces for the module counts.
/// Everything else, modules that `config` leaves plain, and rows that no whole number of groups makes up, keeps
/// its element type, as all does without `config`.
[[nodiscard]] StoredForm stored_form(const PublishedTensor& published, const KeyMap& keys,
                                     const std::optional<QuantizationConfig>& config);

}  // namespace sluice
