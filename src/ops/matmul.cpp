#include "ops/matmul.hpp"

#include "ops/cpu/matmul.hpp"

namespace sluice::ops {

void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  cpu::matmul(out, a, b, into);
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) { return cpu::matmul(a, b); }

}  // namespace sluice::ops
