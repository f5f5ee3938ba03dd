// Tokenizes texts that a job names in place of token files.
#pragma once

#include "config/job_config.hpp"
#include "job/job.hpp"

#include <filesystem>
#include <vector>

namespace sluice {

/// Texts, in the sense of corpus::is_text(), among the files that the job trains on or evaluates.
[[nodiscard]] std::vector<std::filesystem::path> texts_of(const JobConfig& config);

/// Collective over the context's communicator. The job with a token file in place of each text: rank 0 makes
/// it of the text, as sluice tokenize does without options, in the folder `tokens` of the run directory,
/// unless it is there already. Errors of corpus::tokenize(), on every rank alike.
[[nodiscard]] JobConfig with_token_files(JobContext& context);

}  // namespace sluice
