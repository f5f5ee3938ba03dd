#include "ops/device/processor.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace sluice::ops::device {

void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  at::Tensor target = out;
  if (a.size(1) == 0) {
    if (into == Into::kReplace) target.zero_();
    return;
  }
  // A float32 result of bfloat16 factors is that of float32 ones: LibTorch has no product of two types.
  const at::Tensor left = a.to(out.scalar_type()), right = b.to(out.scalar_type());
  if (into == Into::kReplace)
    at::mm_out(target, left, right);
  else
    at::addmm_out(target, out, left, right);
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); }

}  // namespace sluice::ops::device
