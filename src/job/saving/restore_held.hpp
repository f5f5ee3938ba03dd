// Brings a saved step back from the hosts that have its files.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "checkpoint/restore.hpp"
#include "checkpoint/state_spans.hpp"
#include "job/job.hpp"
#include "job/saving/save_disks.hpp"

#include <span>

namespace sluice {

/// Collective over the context's communicator. Fills `state` from the step; rank 0 tells what came from other
/// hosts. Errors as restore_step(), on every rank alike.
RestoreReport restore_held(JobContext& context, const HeldStep& held, std::span<const StateSpan> state);

/// Collective over the context's communicator. Where hosts keep copies, the step gets those back that it
/// lacks; rank 0 tells. Errors as renew_copies().
void renew_lost_copies(JobContext& context, const HeldStep& held, const SaveDisks& disks);

}  // namespace sluice
