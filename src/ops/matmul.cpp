#include "ops/matmul.hpp"

#include "ops/runtime/processor.hpp"

namespace sluice::ops {

void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  on::matmul(out, a, b, into);
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) { return on::matmul(a, b); }

}  // namespace sluice::ops
