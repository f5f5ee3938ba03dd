// The rows that the metrics tests write: every value follows from the step.
#pragma once

#include "metrics/schema.hpp"

#include <cstdint>

namespace sluice::test {

inline constexpr std::int64_t kMoeLayers = 2;
inline constexpr std::int64_t kExperts = 512;  // a row of 8 KiB

/// Rows of files: of so few, expert_tokens enters a new block with one in 16; of so many, its blocks have
/// holes.
inline constexpr std::int64_t kRows = 1024, kManyRows = 1 << 20;

inline MetricsHeader header_for(std::int64_t expected_rows) {
  return {.job_toml = "[job]\nkind = \"train\"\n",
          .structure_hash = "0123456789abcdef0123456789abcdef",
          .world_size = 2,
          .expected_rows = expected_rows,
          .phases = {"forward", "backward"},
          .moe_layers = kMoeLayers,
          .experts = kExperts};
}

/// Row of `step`, from 1. Expert tokens are step x 0, 1, 2, … in order.
inline TrainRow row_of(std::int64_t step) {
  const auto number = static_cast<double>(step);
  TrainRow row{.step = step,
               .loss = 1.0 / number,
               .grad_norm = 2 * number,
               .learning_rate = 1e-3,
               .tokens = 512,
               .step_seconds = 0.5,
               .tokens_per_second = 1024,
               .phase_seconds = {0.1, 0.2},
               .expert_tokens = {},
               .aux_loss = 1.5,
               .z_loss = 2.5,
               .peak_bytes = {step, 10 * step},
               .planned_bytes = {100, 200},
               .peak_growth_bytes = {step + 1, step + 2}};
  for (std::int64_t i = 0; i < kMoeLayers * kExperts; ++i) row.expert_tokens.push_back(step * i);
  return row;
}

}  // namespace sluice::test
