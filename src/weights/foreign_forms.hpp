// Forms of quantised weights that are published and not read here.
#pragma once

#include "weights/checkpoint_index.hpp"

namespace sluice {

/// Error(kBadData) if an index of tensors as they are stored has one of such a form: each form once, with the
/// number of its tensors and the first of them, and what to use instead.
void refuse_foreign_forms(const CheckpointIndex& index);

}  // namespace sluice
