// Metrics files of runs for the tests of what is made of them.
#pragma once

#include "metrics/metrics_rows.hpp"
#include "metrics/metrics_writer.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace sluice::test {

/// Steps `first` to `last`, with two MoE layers of four experts; `change` has the last word on each row.
inline void write_metrics(
    const std::filesystem::path& path, std::int64_t first, std::int64_t last,
    MetricsHeader header = header_for(64), const std::function<void(TrainRow&)>& change = [](TrainRow&) {}) {
  header.experts = 4;
  MetricsWriter writer(path, header);
  for (std::int64_t step = first; step <= last; ++step) {
    TrainRow row = row_of(step);
    row.expert_tokens = {1, 2, 3, 2, 0, 0, 0, 8};
    row.held_out_loss.resize(static_cast<std::size_t>(header.held_out_files), 3.5);
    change(row);
    writer.append(row);
  }
  writer.close();
}

}  // namespace sluice::test
