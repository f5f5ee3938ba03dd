// Joins codes, scales and shapes of quantised weights, each a tensor of a file, to one tensor of the model.
#pragma once

#include "model/quantization_config.hpp"
#include "weights/checkpoint_index.hpp"

#include <filesystem>
#include <optional>

namespace sluice {

/// Replaces in an index of tensors as they are stored
///
///   X          float8_e4m3fn, with X_scale_inv or X_scale: per block, per row, or one number (X is
///              "….weight", or fused experts)
///   X_packed   int32 [..., columns / 8] of 4-bit numbers, with X_scale [..., groups] and X_shape
///   X_blocks   uint8 [..., groups, 16] of 4-bit floating-point numbers in groups of 32 (MXFP4), with
///              X_scales [..., groups]
///   X_packed   uint8 [..., columns / 2] of 4-bit floating-point numbers, with X_scale [..., groups]: uint8
///              or float8_e8m0fnu (MXFP4), or float8_e4m3fn, which X_global_scale divides (NVFP4)
///   X          uint8 [..., columns / 2] of the same, whose X_scale is multiplied with X_scale_2 (NVFP4)
///
/// by X, bfloat16, with an encoding. ModelOpt calls the scales of fused experts X_weight_scale and
/// X_weight_scale_2. What is there decides; `config` gives the sizes of blocks (128 x 128 without it), and
/// must announce what is found, unless it is open. Scales of activations and of caches stay entries, which
/// KeyMap ignores. Reads the X_shape tensors and scales of whole tensors, some bytes each, from `directory`.
/// Error(kBadData) in one text for every scale without weights and every weight without scale, for grids and
/// shapes that do not fit, and for tensors of forms that are not read, with what to use instead.
void join_quantised(CheckpointIndex& index, const std::filesystem::path& directory,
                    const std::optional<QuantizationConfig>& config);

}  // namespace sluice
