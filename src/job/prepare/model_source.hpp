// Resolves runs and directories of checkpoints that a job names as model or adapter.
#pragma once

#include "config/job_config.hpp"

namespace sluice {

/// The job with the saved step that is meant (model.step) in place of a run: in model.path, and in lora.start
/// if it trains or else model.adapter. A step of adapters in model.path gives its base model, which its
/// training had in model.path, with model.adapter. Directories of models and of PEFT stay as they are, as
/// does what is neither. Reads manifests of steps. Error(kBadConfig) for a step that is not there, for
/// adapters as the model of a training, and for two adapters; Error(kBadData) as read_saved_step() and
/// newest_step(), for a step without an adapter where one is wanted, and where the base model is gone.
[[nodiscard]] JobConfig with_saved_sources(JobConfig config);

}  // namespace sluice
