// Resolves the model and the adapter of a job, for which it may name runs and directories of checkpoints; the
// parameters that it trains, and the adapters that it adds.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "checkpoint/saved_step.hpp"
#include "config/job_config.hpp"
#include "model/architecture.hpp"

namespace sluice {

/// Returns the job with runs replaced by the saved steps that model.step names: in model.path, and in
/// lora.start if the job trains, else in model.adapter. If model.path holds a step of adapters, its base
/// model (model.path of its training) becomes model.path, and the step becomes model.adapter. A directory with
/// one folder that PEFT saved an adapter to becomes that folder. Directories of models, PEFT directories and
/// other paths stay as they are. Reads manifests of steps. Error(kBadConfig) for
/// a missing step, for adapters as the model of a training, and for two adapters; Error(kBadData) as
/// read_saved_step() and newest_step(), for a step without an adapter where one is required, for a
/// missing base model, and for a directory with several folders of adapters.
[[nodiscard]] JobConfig with_saved_sources(JobConfig config);

/// Whether a job starts from an adapter's directory (lora.start) or computes with one (model.adapter).
[[nodiscard]] bool has_adapter_directory(const JobConfig& config);
/// The job's adapter, from PEFT's directory or a checkpoint, matched with the job's model. Errors as
/// read_peft_adapter() and saved_adapter(), with the key; Error(kBadConfig) if lora.rank is another one.
[[nodiscard]] PeftAdapter read_adapter(const JobConfig& config, const ParameterManifest& manifest);

/// Adapters of a checkpoint, for a model without adapters. For a checkpoint of an earlier version its job
/// describes them: errors then as described_adapters() and read_peft_adapter().
[[nodiscard]] SavedAdapters adapters_of(const SavedStep& step, const ParameterManifest& manifest);

/// Adapters that [lora] asks for, without values; empty for a job that trains none. Error(kBadConfig) for
/// targets that select nothing, and for dropout on parameters that cannot have it.
[[nodiscard]] AdapterDescription described_adapters(const JobConfig& config,
                                                    const ParameterManifest& manifest);

/// Error(kBadConfig) for dropout with an adapted router or routed expert: these are adapted as parameters, as
/// in PEFT, which has no dropout for them.
void require_no_dropout(const AdapterDescription& adapters, const ParameterManifest& manifest);

/// Freezes the tensors that train.freeze selects, in a job that trains. Error(kBadConfig) for a pattern that
/// selects no tensor, and if nothing is left to train.
void freeze_parameters(const JobConfig& config, ParameterManifest& manifest);

}  // namespace sluice
