// Tokenizes texts that a job names in place of token files.
#pragma once

#include "config/job_config.hpp"
#include "corpus/conversation.hpp"
#include "job/job.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

/// A text that a job names in place of a token file.
struct NamedText {
  std::filesystem::path path;
  std::string key;  ///< key of the job that names it, for messages
};

/// How the job reads rows of JSON that it makes tokens of.
[[nodiscard]] corpus::RowOptions row_options(const JobConfig& config);

/// Texts, in the sense of corpus::is_text(), among the files that the job trains on or evaluates.
[[nodiscard]] std::vector<NamedText> texts_of(const JobConfig& config);

/// Collective over the context's communicator. The job with a token file in place of each text: rank 0 makes
/// it of the text, as sluice tokenize does with row_options() alone, in the folder `tokens` of the run directory,
/// unless it is there already. Errors of corpus::tokenize(), with the key that names the text, on every rank
/// alike.
[[nodiscard]] JobConfig with_token_files(JobContext& context);

}  // namespace sluice
