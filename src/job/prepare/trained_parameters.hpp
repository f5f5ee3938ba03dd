// Parameters that a job trains, and adapters that it adds.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "checkpoint/saved_step.hpp"
#include "config/job_config.hpp"
#include "model/architecture.hpp"

namespace sluice {

/// Whether a job begins with an adapter of a directory (lora.start) or computes with one (model.adapter).
[[nodiscard]] bool has_adapter_directory(const JobConfig& config);
/// The job's adapter, from PEFT's directory or a checkpoint, matched with the job's model. Errors as
/// read_peft_adapter() and saved_adapter(), with the key; Error(kBadConfig) if lora.rank is another one.
[[nodiscard]] PeftAdapter read_adapter(const JobConfig& config, const ParameterManifest& manifest);

/// The adapters that a saved step holds, of a model without adapters. In a step of an earlier version its job
/// says which they are: errors as described_adapters() and read_peft_adapter() then.
[[nodiscard]] SavedAdapters adapters_of(const SavedStep& step, const ParameterManifest& manifest);

/// The adapters that [lora] asks for, with the values of none yet; no adapter for a job that trains none.
/// Error(kBadConfig) for targets that mean nothing, and for dropout of what cannot have it.
[[nodiscard]] AdapterDescription described_adapters(const JobConfig& config,
                                                    const ParameterManifest& manifest);

/// Error(kBadConfig) with dropout and an adapted router or routed expert: their change is one of a parameter,
/// as in PEFT, which has no dropout of those.
void require_no_dropout(const AdapterDescription& adapters, const ParameterManifest& manifest);

/// Freezes what train.freeze means, in a job that trains. Error(kBadConfig) for a pattern that means no
/// tensor, and if nothing is left to train.
void freeze_parameters(const JobConfig& config, ParameterManifest& manifest);

}  // namespace sluice
