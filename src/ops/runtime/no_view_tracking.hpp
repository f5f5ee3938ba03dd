// Many small operations without a graph.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

namespace sluice::ops {

/// While it lives, operations of this thread do not record which tensors are views of which, which takes half
/// of the time of a small operation. Their results must not become part of a graph.
using NoViewTracking = at::AutoDispatchBelowADInplaceOrView;

}  // namespace sluice::ops
