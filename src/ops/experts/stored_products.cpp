#include "ops/experts/stored_products.hpp"

#include "ops/cpu/coded_rows.hpp"
#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/matmul.hpp"

#include <ATen/ops/empty.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace sluice::ops {
namespace {

/// Multiplies ranges of a few rows with stored matrices of experts, whose codes become numbers on the way.
void multiply_stored(const at::Tensor& out, const at::Tensor& x, std::span<const Range> ranges,
                     const StoredMatrices& matrices, std::span<const std::int64_t> experts) {
  std::vector<std::vector<CodedRows>> coded;
  for (const std::int64_t expert : experts) coded.push_back(matrices.coded_rows(expert));
  if (cpu::multiply_coded_rows(out, x, ranges, coded, matrices.products())) return;
  cpu::multiply_few_rows(out, x, ranges,
                         [&](std::size_t number, std::int64_t begin, std::int64_t end, void* rows) {
                           matrices.write_rows(experts[number], begin, end, rows);
                         });
}

}  // namespace

void matmul_transposed(const at::Tensor& out, const at::Tensor& x, const Parameter& fused,
                       std::int64_t expert, Uses uses) {
  if (fused.matrices != nullptr) {
    if (x.size(0) < kFewRows)
      return multiply_stored(out, x, std::array{Range{0, x.size(0)}}, *fused.matrices, std::array{expert});
    if (uses == Uses::kOnce && x.is_cpu() && cpu::matmul_of_codes(out, x, fused.matrices->coded_rows(expert)))
      return;
  }
  ops::matmul(out, x, matrix_of(fused, expert).t());
}

void matmul_transposed(const at::Tensor& out, const at::Tensor& x, const Parameter& fused,
                       std::span<const ExpertPart> parts) {
  std::vector<Range> ranges;
  std::vector<std::int64_t> experts;
  for (const ExpertPart& part : parts) {
    ranges.push_back({part.begin, part.begin + part.count});
    experts.push_back(part.expert);
  }
  if (fused.matrices != nullptr) return multiply_stored(out, x, ranges, *fused.matrices, experts);
  std::vector<at::Tensor> weights;
  for (const std::int64_t expert : experts) weights.push_back(matrix_of(fused, expert));
  cpu::multiply_few_rows(out, x, ranges, weights);
}

at::Tensor matmul_transposed(const at::Tensor& x, const Parameter& weight, Uses uses) {
  if (weight.matrices == nullptr) return ops::matmul(x, weight.value.t());
  at::Tensor out = at::empty({x.size(0), weight.value.size(0)}, x.options());
  matmul_transposed(out, x, weight, 0, uses);
  return out;
}

}  // namespace sluice::ops
