// Conversation in the terminal: rank 0 reads the user's messages, and all ranks answer.
#pragma once

#include "generate/generator.hpp"
#include "job/job.hpp"

namespace sluice {

/// Collective over the context's communicator. Runs until standard input ends. Earlier messages are not
/// computed again in each turn.
void converse(JobContext& context, CachedForward& forward, GenerationOptions options);

}  // namespace sluice
