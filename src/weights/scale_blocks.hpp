// The shapes that the scales of a quantised matrix may have, and the elements that share a scale then.
#pragma once

#include "base/dtype.hpp"
#include "model/quantization_config.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

/// Size of the blocks that share a scale, for one of the allowed shapes of scales.
struct ScaleBlocks {
  std::vector<std::int64_t> scales;  ///< shape of the scales
  std::int64_t matrix_rows = 0;      ///< rows after which blocks begin anew
  std::int64_t rows = 0;             ///< rows of a block
  std::int64_t columns = 0;          ///< columns of a block

  [[nodiscard]] bool is_of(const std::array<std::int64_t, 2>& block) const {
    return rows == block[0] && columns == block[1];
  }
};

/// Block sizes that the scales of an FP8 weight of shape `weight`, with two or more dimensions, may have, the
/// likeliest first: those that config.json announces, one scale per tensor or matrix, and unless each of its
/// forms has blocks 128 x 128, for powers of two 1 x 32 (MXFP8), and one scale per row, which comes last.
[[nodiscard]] std::vector<ScaleBlocks> possible_scale_blocks(std::span<const std::int64_t> weight,
                                                             DType scale_type,
                                                             const std::optional<QuantizationConfig>& config);

/// Block size of the possible ones that the scales of weight `name` have, of shape `scales`; where several of
/// config.json's fit, the one that it announces for the module. Nothing: none fits.
[[nodiscard]] std::optional<ScaleBlocks> find_scale_blocks(std::string_view name,
                                                           std::span<const std::int64_t> scales,
                                                           const std::vector<ScaleBlocks>& possible,
                                                           const std::optional<QuantizationConfig>& config);

/// Heads of keys and values that were quantised together: blocks of a head's rows of keys and then of values, of which
/// one has rows of both.
struct JointHeads {
  std::int64_t count = 0;                     ///< number of heads
  std::int64_t key_rows = 0, value_rows = 0;  ///< rows of a head
  std::int64_t key_grid_rows = 0;             ///< rows of scales that a head's keys have, the shared one last
  std::int64_t shared_rows = 0;               ///< rows of values in the shared block
};

/// The heads for which scales of these shapes are such, with one row of scales for a head's values; nothing if they are
/// of keys and of values alone.
[[nodiscard]] std::optional<JointHeads> find_joint_heads(std::span<const std::int64_t> keys,
                                                         std::span<const std::int64_t> values,
                                                         std::span<const std::int64_t> key_scales,
                                                         std::span<const std::int64_t> value_scales,
                                                         const std::array<std::int64_t, 2>& block);

}  // namespace sluice
