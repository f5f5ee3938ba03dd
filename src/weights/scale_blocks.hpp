// The shapes that the scales of a quantised matrix may have, and the elements that share a scale then.
#pragma once

#include "model/quantization_config.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Size of the blocks that share a scale, for one of the allowed shapes of scales.
struct ScaleBlocks {
  std::vector<std::int64_t> scales;  ///< shape of the scales
  std::int64_t matrix_rows = 0;      ///< rows after which blocks begin anew
  std::int64_t rows = 0;             ///< rows of a block
  std::int64_t columns = 0;          ///< columns of a block
};

/// Block sizes that the scales of an FP8 weight of shape `weight`, with two or more dimensions, may have, the
/// likeliest first: those of config.json or 128 x 128, one scale per tensor or matrix, and unless config.json
/// names blocks one scale per row, which comes last.
[[nodiscard]] std::vector<ScaleBlocks> possible_scale_blocks(std::span<const std::int64_t> weight,
                                                             const std::optional<QuantizationConfig>& config);

}  // namespace sluice
