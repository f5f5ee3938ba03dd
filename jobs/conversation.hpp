// A conversation in the terminal: rank 0 reads what a user says, all ranks answer.
#pragma once

#include "generate/generator.hpp"
#include "job/job.hpp"

namespace sluice {

/// Collective over the context's communicator. Until standard input ends. What was said is computed once, not
/// in every turn.
void converse(JobContext& context, CachedForward& forward, GenerationOptions options);

}  // namespace sluice
