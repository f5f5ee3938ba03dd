#include "ops/buffers/optimizer.hpp"

#include "ops/cpu/optimizer/optimizer.hpp"

namespace sluice::ops {

void adamw_update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const AdamWStep& step) {
  cpu::adamw_update(runs, formats, step);
}

void lion_update(std::span<const UpdateRun> runs, const UpdateFormats& formats, const LionStep& step) {
  cpu::lion_update(runs, formats, step);
}

void read_master(const std::byte* weights, const std::byte* master, MasterFormat format, std::int64_t first,
                 std::int64_t n, float* out) {
  cpu::read_master(weights, master, format, first, n, out);
}

FactoredSums adafactor_sums(const FactoredRun& run, const UpdateFormats& formats, double rho,
                            double* column_squares) {
  return cpu::adafactor_sums(run, formats, rho, column_squares);
}

void adafactor_columns(const FactoredRun& run, double rho, const double* column_squares, std::int64_t rows) {
  cpu::adafactor_columns(run, rho, column_squares, rows);
}

double adafactor_update_squares(const FactoredRun& run, const UpdateFormats& formats, double mean_row) {
  return cpu::adafactor_update_squares(run, formats, mean_row);
}

void adafactor_update(const FactoredRun& run, const UpdateFormats& formats, double mean_row, double decay,
                      double rate) {
  cpu::adafactor_update(run, formats, mean_row, decay, rate);
}

}  // namespace sluice::ops
