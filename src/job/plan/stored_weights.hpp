// Weights of a job's model that memory keeps as codes and scales.
#pragma once

#include "comm/communicator.hpp"
#include "device/memory.hpp"
#include "job/prepare/blueprint.hpp"

#include <string>

namespace sluice {

/// Whether jobs of a kind can keep frozen weights as published. An export writes plain numbers; it quantises
/// the weights that the job would, so that it writes the numbers with which a training computed.
[[nodiscard]] bool can_keep_stored(JobKind kind);

/// Whether experts stay in the files of model.path, or optimizer.fit may choose that they do.
[[nodiscard]] bool may_stay_in_files(const JobConfig& config);

/// Collective over `comm`. The quantised tensors of model.path that model.frozen_format = "stored" keeps as codes and
/// scales, or could keep where optimizer.fit chooses, and experts in bfloat16 that may stay in files; nothing for
/// "dtype", for weights that are drawn or come from a saved step, and where nothing is quantised. For "int8"
/// and "nf4" the matrices that the load quantises. `plain` is the job without them. By the headers of the
/// files, which rank 0 reads, or where there are no weights by what config.json announces. `memory`: the kind of
/// memory that ranks compute in. Error(kBadConfig) if training would change quantised weights, if such weights should
/// be quantised again, or if they would lie in a GPU's memory; others as plan_load().
[[nodiscard]] StoredTensors stored_weights(Communicator& comm, const Blueprint& plain, MemoryKind memory);

/// The stored weights that a job keeps once its format is chosen.
[[nodiscard]] StoredTensors kept_as_stored(const JobConfig& config, const StoredTensors& stored);

/// Note about a job that asks for "stored" but keeps nothing so, or "".
[[nodiscard]] std::string stored_note(const Blueprint& blueprint);

}  // namespace sluice
