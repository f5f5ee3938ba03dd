// Many small operations without a graph.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

namespace sluice::ops {

/// While it lives, this thread's operations keep no record of which tensors are views of which, for which
/// half of the time of a small one goes. Nothing that they make may become part of a graph.
using NoViewTracking = at::AutoDispatchBelowADInplaceOrView;

}  // namespace sluice::ops
