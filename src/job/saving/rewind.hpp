// Takes a training back to its last saved step.
#pragma once

#include "checkpoint/state_spans.hpp"
#include "job/job.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// Collective over the context's communicator. Fills `state` from the saved step `step` of this run. Errors
/// as HeldSteps::read() and restore_held(), on every rank alike.
void rewind_to(JobContext& context, std::int64_t step, std::span<const StateSpan> state);

}  // namespace sluice
