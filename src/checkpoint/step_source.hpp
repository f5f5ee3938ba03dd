// Paths that name checkpoints: a run's directory, a directory of checkpoints, or one checkpoint.
#pragma once

#include "base/error.hpp"
#include "checkpoint/step_directory.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Directory of a run's checkpoints: checkpoint.path in its copy of the job, relative to the directory that
/// the job was started in, or "checkpoints" in the run's directory, wherever that has been moved to.
[[nodiscard]] std::filesystem::path steps_of_run(const std::filesystem::path& run);

/// Directory of the checkpoints that a path means: a run's checkpoints, or the path itself. Nothing if there
/// are none.
[[nodiscard]] std::optional<std::filesystem::path> find_steps(const std::filesystem::path& path);

/// Lists all checkpoints that a path names, complete or not, ascending: of a run, of a directory, or the path
/// itself. Error(kBadData) if there are none, with the directory that the run's job file names.
[[nodiscard]] std::vector<StepPlace> steps_at(const std::filesystem::path& path);

/// The checkpoint with the lowest held-out loss, according to the newest complete one; step 0 if none was
/// evaluated or none is complete.
[[nodiscard]] HeldOutStep best_step(const std::vector<StepPlace>& steps);

/// A checkpoint of a directory by its step, or kNewestStep or kBestStep; nothing if it does not exist. Errors
/// as newest_step().
[[nodiscard]] std::optional<FoundStep> step_in(const std::filesystem::path& directory, std::int64_t which,
                                               const TellBroken& on_broken);
/// The checkpoint `which` among `steps` of the directory, ascending, each read by `read`.
[[nodiscard]] std::optional<FoundStep> step_in(const std::filesystem::path& directory,
                                               const std::vector<StepPlace>& steps, const ReadStep& read,
                                               std::int64_t which, const TellBroken& on_broken);

/// Text for a missing checkpoint: "there is no saved step 99 in runs/x/checkpoints, which holds 20, 40".
[[nodiscard]] std::string missing_step_text(const std::filesystem::path& directory, std::int64_t which);

/// The checkpoint that a path means: itself if it is one, else the given one in it. Nothing if it has no
/// checkpoints. Error(`code`) if it has some, but not that one; else as newest_step(). A checkpoint of an
/// earlier version is returned with the directory where its run was started, if the run's copy of the job
/// tells.
[[nodiscard]] std::optional<FoundStep> find_step(const std::filesystem::path& path, std::int64_t which,
                                                 ExitCode code);

}  // namespace sluice
