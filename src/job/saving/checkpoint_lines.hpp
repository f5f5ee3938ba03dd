// The lines on checkpoints that rank 0 prints before a training's first step.
#pragma once

#include "checkpoint/hosts/held_steps.hpp"
#include "job/job.hpp"
#include "job/saving/save_disks.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>

namespace sluice {

/// Checkpoints of a training that begins or goes on.
struct CheckpointPlan {
  const std::filesystem::path& directory;  ///< directory of all steps
  const std::optional<SaveDisks>& disks;   ///< disks that steps are saved to; empty if none are
  const std::optional<FoundStep>& found;   ///< step that is resumed; empty in a new training
  std::size_t superseded_steps = 0;        ///< saved steps of this host that the first save removes
};

/// Prints what will be saved and where, what is resumed and which keys differ since; warns of what earlier
/// runs left in the directory.
void print_checkpoint_plan(const JobContext& context, const CheckpointPlan& plan);

}  // namespace sluice
