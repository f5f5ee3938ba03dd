// What the scores that a job makes are of.
#pragma once

#include "config/job_config.hpp"
#include "data/score_file.hpp"
#include "data/token_file.hpp"
#include "model/architecture.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace sluice {

/// Digest of the tokenizer in a model's directory; "" if there is none that can be read.
[[nodiscard]] std::string tokenizer_digest(const std::filesystem::path& model);

/// Key of the scores of a token file by the weights that a job starts from. Calls `tell` between its parts. Reads the
/// token file whole, and samples of the weights.
[[nodiscard]] ScoreKey score_key(const JobConfig& config, const ModelDescription& model,
                                 const TokenFile& file, const std::function<void()>& tell);

}  // namespace sluice
