// Threads of the compute libraries.
#pragma once

namespace sluice::ops {

/// Sets how many threads LibTorch and the BLAS behind it use in this process. Call it once, before the first
/// operation.
void set_thread_count(int threads);

}  // namespace sluice::ops
