#include "ops/cpu/optimizer/optimizer.hpp"
#include "device/copy.hpp"
#include "ops/device/own_kernels.hpp"
#include "ops/device/processor.hpp"
#include "ops/runtime/tensor_device.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>

namespace sluice::ops::device {
namespace {

std::int64_t master_bytes(MasterFormat format) {
  switch (format) {
    case MasterFormat::kFloat32:
      return sizeof(std::int16_t);
    case MasterFormat::k24Bit:
      return sizeof(std::int8_t);
    case MasterFormat::kNone:
      break;
  }
  return 0;
}

at::Tensor floats(float* data, std::int64_t n) { return tensor_over(data, {n}, at::kFloat); }

/// Returns the scaled gradient: float32 [rows, columns].
at::Tensor gradient_of(const FactoredRun& run, const UpdateFormats& formats) {
  return tensor_over(const_cast<std::byte*>(run.gradient), {run.rows, run.columns},
                     scalar_type(formats.gradient))
             .to(at::kFloat) *
         run.gradient_scale;
}

/// Returns master weights as float32 [rows, columns]: a copy, unless they are float32 themselves.
at::Tensor master_of(const FactoredRun& run, const UpdateFormats& formats) {
  if (formats.weights == DType::kFloat32)
    return tensor_over(run.weights, {run.rows, run.columns}, at::kFloat);
  at::Tensor out = at::empty({run.rows, run.columns}, options_in(MemoryKind::kDevice, at::kFloat));
  read_masters(run, formats.master, static_cast<float*>(out.data_ptr()));
  return out;
}

/// Returns the update U: the gradient divided by the square root of V.
at::Tensor update_of(const FactoredRun& run, const UpdateFormats& formats, double mean_row) {
  constexpr double kMaxInverse = 1 / kAdafactorEps1;
  at::Tensor inverse = floats(run.column, run.columns).rsqrt().unsqueeze(0);
  if (!run.is_vector()) {
    const double least = std::max(mean_row, kAdafactorEps1);
    inverse = (floats(run.row, run.rows).reciprocal() * least).sqrt_().unsqueeze(1) * inverse;
  }
  return gradient_of(run, formats) * inverse.clamp_max(kMaxInverse);
}

}  // namespace

void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out) {
  const std::int64_t rest = master_bytes(format);
  const HostBytes rounded(weights + first * size_of(DType::kBFloat16), n * size_of(DType::kBFloat16));
  const HostBytes kept(rest == 0 ? nullptr : master + first * rest, n * rest);
  cpu::read_master(rounded.data(), kept.data(), format, 0, n, out);
}

FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                            double* column_squares) {
  const at::Tensor squares = gradient_of(run, formats).square_();
  const at::Tensor columns = squares.sum(0, /*keepdim=*/false, at::kDouble).cpu();
  at::from_blob(column_squares, {run.columns}, at::kDouble).add_(columns);
  FactoredSums sums{.weight_squares = master_of(run, formats).square().sum(at::kDouble).item<double>()};
  if (run.is_vector()) return sums;
  at::Tensor row = floats(run.row, run.rows);
  row.add_(squares.mean(1) - row, rho);
  sums.rows = row.sum(at::kDouble).item<double>();
  return sums;
}

void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows) {
  const at::Tensor mean = at::from_blob(const_cast<double*>(column_squares), {run.columns}, at::kDouble) /
                          static_cast<double>(rows);
  at::Tensor column = floats(run.column, run.columns);
  column.add_(mean.to(at::kFloat).to(column.device()) - column, rho);
}

double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats, double mean_row) {
  return update_of(run, formats, mean_row).square_().sum(at::kDouble).item<double>();
}

void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate) {
  at::Tensor weights = master_of(run, formats);
  weights.mul_(decay).sub_(update_of(run, formats, mean_row), rate);
  if (formats.weights == DType::kBFloat16)
    write_masters(run, formats.master, static_cast<const float*>(weights.data_ptr()));
}

}  // namespace sluice::ops::device
