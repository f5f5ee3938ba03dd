// Memory of LibTorch's tensors in main memory. Internal to src/ops.
#pragma once

namespace sluice::ops::cpu {

/// From here on large tensors in main memory are placed in one range of addresses, on huge pages where the
/// kernel has them, and what is freed stays for the next: a step asks for the same sizes as the step before,
/// so a freed block fits again. (The C library asks for a little more than it returns where memory is to be
/// aligned, so that a gap does not hold what has left it, and small blocks settle in between: half as much
/// again as is in use.) Tensors that exist already are not touched. Does nothing if it was called before,
/// under a sanitizer of addresses, which would see nothing of what happens there, or where the process's
/// addresses are limited (ulimit -v).
void use_tensor_heap();

}  // namespace sluice::ops::cpu
