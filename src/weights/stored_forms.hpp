// Which of a checkpoint's quantised weights memory can keep as they are.
#pragma once

#include "manifest/manifest.hpp"
#include "model/quantization_config.hpp"
#include "shard/stored/stored_tensors.hpp"
#include "weights/checkpoint_match.hpp"

#include <span>

namespace sluice {

/// Those of matrices of layers, and of fused routed experts, of which every part is quantised and published
/// row by row as the manifest has it.
[[nodiscard]] StoredTensors find_stored(const CheckpointIndex& index, const CheckpointMatch& match,
                                        const ParameterManifest& manifest);

/// What a config.json lets expect of files that are not there: every routed expert in the form that it
/// announces, with scales of the usual type.
[[nodiscard]] StoredTensors announced_stored(const QuantizationConfig& config,
                                             const ParameterManifest& manifest);

/// What memory holds of published numbers once they are quantised: the matrices of layers and routed experts
/// that are frozen, or all if nothing is trained; INT8 has a scale for each row, NF4 for each 64 elements of
/// a row. A matrix whose rows have an odd number of elements has no NF4.
[[nodiscard]] StoredTensors quantised_matrices(const ParameterManifest& manifest, Codes codes, bool trains);

/// The first of `tensors`, ascending indices of the manifest, that is quantised in the files; -1: none.
[[nodiscard]] int find_quantised(const CheckpointIndex& index, const CheckpointMatch& match,
                                 std::span<const int> tensors);

/// Gives the entries of frozen routed experts that are published in bfloat16 an encoding, codes without
/// scales, so that they can be stored as well.
void encode_plain_experts(CheckpointIndex& index, const CheckpointMatch& match,
                          const ParameterManifest& manifest);

/// What such files are expected to hold that are not there: every frozen routed expert in bfloat16.
[[nodiscard]] StoredTensors plain_experts(const ParameterManifest& manifest);

/// A quantised tensor that training would change: an index of the manifest, or -1 if there is none.
[[nodiscard]] int find_trained_quantised(const CheckpointIndex& index, const CheckpointMatch& match,
                                         const ParameterManifest& manifest);

}  // namespace sluice
