// A rank's weights: allocated once, then loaded from the checkpoint or drawn.
#pragma once

#include "job/job.hpp"
#include "load/load_report.hpp"
#include "shard/arena.hpp"

#include <optional>

namespace sluice {

struct Weights {
  ShardArena arena;                ///< arena of the weights, paged if the job says so and the rank needs it
  std::optional<LoadReport> load;  ///< report of the load; nothing if the weights were drawn
};

/// Collective over the context's communicator. Rank 0 prints what each rank will hold before anything is
/// allocated, the load's progress, and at the end what it took. With memory.offload a rank that needs more
/// than it may hold makes a file for the rest: Error(kIo) if the disk has no room for those of all ranks on
/// its node. Error(kBadData) if the checkpoint is not the model's; Error(kInternal) if the ranks' plans
/// differ; Error(kTooLittle) if what the job will hold for certain does not fit the memory that is there.
[[nodiscard]] Weights make_weights(JobContext& context);

/// Collective over the context's communicator. Allocates weights as make_weights() without values, which a
/// checkpoint will bring.
[[nodiscard]] Weights make_empty_weights(JobContext& context);

/// Collective over the context's communicator. Load with load.sink = "discard": every byte is read and sent
/// as in a load, and dropped on arrival. No rank holds more than its staging.
LoadReport stream_weights(JobContext& context);

}  // namespace sluice
