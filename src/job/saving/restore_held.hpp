// Restores a checkpoint from the hosts that have its files.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "checkpoint/restore.hpp"
#include "checkpoint/state_spans.hpp"
#include "job/job.hpp"
#include "job/saving/save_disks.hpp"

#include <span>

namespace sluice {

/// Collective over the context's communicator. Fills `state` from the checkpoint; rank 0 prints how much came
/// from other hosts. Errors as restore_step(), on every rank alike.
RestoreReport restore_held(JobContext& context, const HeldStep& held, std::span<const StateSpan> state);

/// Collective over the context's communicator. Renews copies that a checkpoint lacks, if hosts keep copies;
/// rank 0 prints what was copied. Errors as renew_copies().
void renew_lost_copies(JobContext& context, const HeldStep& held, const SaveDisks& disks);

}  // namespace sluice
