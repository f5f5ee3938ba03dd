#include "ops/device/processor.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace sluice::ops::device {
namespace {

at::Tensor array(const void* data, std::int64_t n, at::ScalarType dtype) {
  return tensor_over(const_cast<void*>(data), {n}, dtype);
}

}  // namespace

void clear(float* gradients, std::int64_t n) { array(gradients, n, at::kFloat).zero_(); }

void add(const float* part, std::int64_t n, float* sum) {
  array(sum, n, at::kFloat).add_(array(part, n, at::kFloat));
}

void round_to_bfloat16(const float* from, std::int64_t n, std::byte* to) {
  array(to, n, at::kBFloat16).copy_(array(from, n, at::kFloat));
}

double sum_of_squares(const float* x, std::int64_t n) {
  return sum_of_squares(reinterpret_cast<const std::byte*>(x), DType::kFloat32, n);
}

double sum_of_squares(const std::byte* x, DType dtype, std::int64_t n) {
  // Number of elements that are squared at a time, which bounds the memory of the squares.
  constexpr std::int64_t kPiece = 1 << 24;
  const at::ScalarType type = scalar_type(dtype);
  double sum = 0;
  for (std::int64_t first = 0; first < n; first += kPiece) {
    const at::Tensor piece = array(x + first * size_of(dtype), std::min(kPiece, n - first), type);
    sum += piece.to(at::kDouble).square().sum().item<double>();
  }
  return sum;
}

}  // namespace sluice::ops::device
