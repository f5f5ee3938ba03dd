#include "ops/runtime/tensor_memory.hpp"

namespace sluice::ops {

void limit_tensor_memory(std::int64_t) {}

}  // namespace sluice::ops
