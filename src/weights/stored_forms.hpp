// Choice of the weights that memory keeps as codes and scales.
#pragma once

#include "manifest/manifest.hpp"
#include "model/quantization_config.hpp"
#include "shard/stored/stored_tensors.hpp"
#include "weights/checkpoint_match.hpp"

#include <span>

namespace sluice {

/// Tensors that can be stored as published: matrices of layers, and fused routed experts, of which every part
/// is quantised and published row by row as in the manifest.
[[nodiscard]] StoredTensors find_stored(const CheckpointIndex& index, const CheckpointMatch& match,
                                        const ParameterManifest& manifest);

/// Tensors that files of a given config.json are expected to store: every routed expert in the announced
/// encoding, with scales of the usual type.
[[nodiscard]] StoredTensors announced_stored(const QuantizationConfig& config,
                                             const ParameterManifest& manifest);

/// Tensors that are quantised while they are loaded: matrices of layers and routed experts that are frozen,
/// or all of them if nothing is trained. INT8 has a scale per row, NF4 one per 64 elements of a row. A matrix
/// with an odd number of elements per row cannot be NF4.
[[nodiscard]] StoredTensors quantised_matrices(const ParameterManifest& manifest, Codes codes, bool trains);

/// The first of `tensors`, ascending indices in the manifest, that the files hold quantised; -1: none.
[[nodiscard]] int find_quantised(const CheckpointIndex& index, const CheckpointMatch& match,
                                 std::span<const int> tensors);

/// Gives entries of frozen routed experts that are published in bfloat16 an encoding of codes without scales,
/// so that they can be stored too.
void encode_plain_experts(CheckpointIndex& index, const CheckpointMatch& match,
                          const ParameterManifest& manifest);

/// Tensors that bfloat16 files are expected to store: every frozen routed expert.
[[nodiscard]] StoredTensors plain_experts(const ParameterManifest& manifest);

/// Index in the manifest of a quantised tensor that training would change; -1: none.
[[nodiscard]] int find_trained_quantised(const CheckpointIndex& index, const CheckpointMatch& match,
                                         const ParameterManifest& manifest);

}  // namespace sluice
