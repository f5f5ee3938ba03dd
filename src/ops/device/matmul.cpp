#include "ops/device/cuda_library.hpp"
#include "ops/device/formulas.hpp"
#include "ops/device/processor.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace sluice::ops::device {

void formulas::matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  at::Tensor target = out;
  // A float32 product of bfloat16 factors is computed as a product of float32 copies: LibTorch has no product
  // of mixed types on every device.
  const at::Tensor left = a.to(out.scalar_type()), right = b.to(out.scalar_type());
  if (into == Into::kReplace)
    at::mm_out(target, left, right);
  else
    at::addmm_out(target, out, left, right);
}

void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  if (out.numel() == 0) return;
  if (a.size(1) == 0) {
    if (into == Into::kReplace) at::Tensor(out).zero_();
    return;
  }
  if (!cuda_library::matmul(out, a, b, into)) formulas::matmul(out, a, b, into);
}

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); }

void formulas::multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block,
                               const at::Tensor& b) {
  for (const ExpertPart& part : block.parts)
    device::matmul(block.rows_of(out, part), block.rows_of(a, part), b[part.expert], Into::kReplace);
}

void multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block, const at::Tensor& b) {
  if (!cuda_library::multiply_groups(out, a, block, b)) formulas::multiply_groups(out, a, block, b);
}

}  // namespace sluice::ops::device
