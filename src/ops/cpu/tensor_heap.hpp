// The allocator of LibTorch's tensors in main memory. Internal to src/ops.
#pragma once

namespace sluice::ops::cpu {

/// Places large tensors in main memory in one address range, on huge pages if the kernel has them, and keeps
/// freed blocks for the next step, which asks for the same sizes. (The C library over-allocates aligned
/// memory, so that a freed block does not fit its next tensor, and small blocks settle in the gaps: this
/// costs half as much again as is in use.) Existing tensors stay where they are. Does nothing if it was
/// called before, under an address sanitizer, which could not check such memory, or if the process's
/// addresses are limited (ulimit -v).
void use_tensor_heap();

}  // namespace sluice::ops::cpu
