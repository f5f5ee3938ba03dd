// Options of the batches that a job reads.
#pragma once

#include "config/job_config.hpp"
#include "data/batch_source.hpp"

#include <cstdint>
#include <filesystem>

namespace sluice {

/// Batch options of the tables [data] and [train]; an evaluation takes every token of data.tokens once.
/// `vocab_size` is the model's.
[[nodiscard]] BatchOptions batch_options(const JobConfig& config, std::int64_t vocab_size);

/// Batch options of a file that is evaluated while the job trains: every token once.
[[nodiscard]] BatchOptions held_out_options(const JobConfig& config, const std::filesystem::path& tokens,
                                            std::int64_t vocab_size);

}  // namespace sluice
