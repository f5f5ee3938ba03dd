// Formats of quantised weights that are published but not supported here.
#pragma once

#include "weights/checkpoint_index.hpp"

namespace sluice {

/// Error(kBadData) if an index of stored tensors has some in an unsupported format: names each format, with
/// the number of its tensors and the first of them, and what to use instead.
void refuse_foreign_forms(const CheckpointIndex& index);

}  // namespace sluice
