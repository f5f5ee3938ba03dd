#include "ops/experts/stored_products.hpp"

#include "ops/cpu/coded_rows.hpp"
#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/matmul.hpp"

#include <ATen/ops/empty.h>

namespace sluice::ops {
namespace {

/// Multiplies a few rows with a stored matrix, whose codes become numbers on the way.
void multiply_stored(const at::Tensor& out, const at::Tensor& x, const StoredMatrices& matrices,
                     std::int64_t expert) {
  if (cpu::multiply_coded_rows(out, x, matrices.coded_rows(expert), matrices.products())) return;
  cpu::multiply_few_rows(out, x, out.size(1), [&](std::int64_t begin, std::int64_t end, void* rows) {
    matrices.write_rows(expert, begin, end, rows);
  });
}

}  // namespace

void matmul_transposed(const at::Tensor& out, const at::Tensor& x, const Parameter& fused,
                       std::int64_t expert, Uses uses) {
  if (fused.matrices != nullptr) {
    if (x.size(0) < kFewRows) return multiply_stored(out, x, *fused.matrices, expert);
    if (uses == Uses::kOnce && x.is_cpu() && cpu::matmul_of_codes(out, x, fused.matrices->coded_rows(expert)))
      return;
  }
  ops::matmul(out, x, matrix_of(fused, expert).t());
}

at::Tensor matmul_transposed(const at::Tensor& x, const Parameter& weight, Uses uses) {
  if (weight.matrices == nullptr) return ops::matmul(x, weight.value.t());
  at::Tensor out = at::empty({x.size(0), weight.value.size(0)}, x.options());
  matmul_transposed(out, x, weight, 0, uses);
  return out;
}

}  // namespace sluice::ops
