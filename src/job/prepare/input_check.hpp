// Checks of a job's inputs besides its weights, as the job itself would make them before its first step.
#pragma once

#include "config/job_config.hpp"
#include "job/commands/findings.hpp"
#include "job/saving/resume_point.hpp"
#include "model/model_config.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

/// Looks at token files and texts, held-out ones too, and prints a line for each kind. Of texts nothing is
/// made: what is wrong inside one is found when the job makes its tokens. Returns what training's token files
/// are known by, if all of them are there.
std::optional<DataIdentity> check_token_inputs(const JobConfig& config, std::int64_t vocab_size,
                                               Findings& findings);

/// Looks at generate.prompts and at what answers need of the model, if the job answers any.
void check_prompts(const JobConfig& config, const ModelConfig& model);

}  // namespace sluice
