// Checks of a job's inputs besides its weights, as the job makes them before its first step.
#pragma once

#include "config/job_config.hpp"
#include "job/commands/findings.hpp"
#include "job/saving/resume_point.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

/// Checks token files and texts, held-out ones too, and prints a line for each kind. Texts are not tokenized:
/// faults inside one are found when the job tokenizes it. Returns the identity of training's token files, if
/// all of them exist.
std::optional<DataIdentity> check_token_inputs(const JobConfig& config, std::int64_t vocab_size,
                                               Findings& findings);

/// Checks generate.prompts, and what answers need of the model, if the job answers prompts.
void check_prompts(const JobConfig& config, const ModelConfig& model);

}  // namespace sluice
