// Memory of LibTorch's tensors in main memory. Internal to src/ops.
#pragma once

namespace sluice::ops::cpu {

/// Places large tensors in main memory in one range of addresses, on huge pages where the kernel has them,
/// and keeps freed blocks for the next step, which asks for the same sizes. (The C library asks for a little
/// more than it returns where memory is to be aligned, so that a gap does not hold what has left it, and
/// small blocks settle in between: half as much again as is in use.) Tensors that exist already stay where
/// they are. Does nothing if it was called before, under an address sanitizer, which would see nothing of
/// what happens there, or where the process's addresses are limited (ulimit -v).
void use_tensor_heap();

}  // namespace sluice::ops::cpu
