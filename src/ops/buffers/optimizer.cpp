#include "ops/buffers/optimizer.hpp"

#include "base/error.hpp"
#include "ops/runtime/processor.hpp"

namespace sluice::ops {
namespace {

void require_formats(std::span<const UpdateRun> runs, const UpdateFormats& formats) {
  SLUICE_ASSERT(formats.weights == DType::kFloat32 || formats.weights == DType::kBFloat16,
                "weights cannot have type {}", name_of(formats.weights));
  SLUICE_ASSERT(formats.gradient == DType::kFloat32 || formats.gradient == DType::kBFloat16,
                "gradients cannot have type {}", name_of(formats.gradient));
  SLUICE_ASSERT(formats.weights == DType::kBFloat16 || formats.master == MasterFormat::kFloat32,
                "float32 weights are their own master weights: expected no others");
  SLUICE_ASSERT(formats.state != StateFormat::kFactored, "factored moments belong to Adafactor alone");
  if (formats.state != StateFormat::kInt8) return;
  for (const UpdateRun& run : runs)
    SLUICE_ASSERT(run.begin % kStateBlock == 0, "a run of 8-bit state begins at element {}, within a block",
                  run.begin);
}

}  // namespace

void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step) {
  require_formats(runs, formats);
  on::update_moments(runs, formats, step);
}

void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out) {
  on::read_master(weights, master, format, first, n, out);
}

FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                            double* column_squares) {
  return on::adafactor_sums(run, formats, rho, column_squares);
}

void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows) {
  on::adafactor_columns(run, rho, column_squares, rows);
}

double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats, double mean_row) {
  return on::adafactor_update_squares(run, formats, mean_row);
}

void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate) {
  on::adafactor_update(run, formats, mean_row, decay, rate);
}

}  // namespace sluice::ops
