// The loops of the optimizers. Internal to src/ops.
#pragma once

#include "ops/buffers/adafactor.hpp"
#include "ops/buffers/optimizer.hpp"

namespace sluice::ops::cpu {

/// Compute the functions of ops of the same names on this processor.
void update_moments(std::span<const UpdateRun> runs, const UpdateFormats& formats, const MomentStep& step);
void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out);

[[nodiscard]] FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                                          double* column_squares);
void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows);
[[nodiscard]] double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats,
                                              double mean_row);
void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate);

}  // namespace sluice::ops::cpu
