// Row of a step in the metrics file, and its line on the terminal.
#pragma once

#include "metrics/schema.hpp"
#include "train/step_metrics.hpp"

#include <cstdint>
#include <string>

namespace sluice {

/// Numbers that turn the tokens and seconds of a step into rates and shares.
struct StepRates {
  double flops_per_token = 0;    ///< FLOP per token of forward and backward, without recomputation
  double product_rate = 0;       ///< rate of large matrix products over all ranks, FLOP/s
  std::int64_t step_tokens = 0;  ///< tokens of a step, without padding
};

/// Row of a step that took `seconds`, without the columns of evaluations, sources and memory.
[[nodiscard]] TrainRow row_of_step(std::int64_t step, const StepMetrics& metrics, double learning_rate,
                                   double seconds, const StepRates& rates);

/// Whether held-out tokens were evaluated after the step of this row.
[[nodiscard]] bool has_held_out_loss(const TrainRow& row);

/// Line of a step, "step 3/100  loss 4.31204  grad norm ...", with `experts` experts in each MoE layer, and
/// the result of seconds_left().
[[nodiscard]] std::string step_line(const TrainRow& row, std::int64_t steps, std::int64_t experts,
                                    double seconds_left);

/// Seconds that the steps after `step` until `total` will take, at the mean rate since the end of step
/// `first`. That is the first step of this start, which also compiles kernels and allocates memory; -1 after
/// it.
[[nodiscard]] double seconds_left(std::int64_t step, std::int64_t first, std::int64_t total,
                                  double seconds_since_first);

}  // namespace sluice
