// Meaning of a path that names checkpoints: a run's directory, a directory of checkpoints, or one checkpoint.
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

/// The directory of the steps that a path means: that of a run's, or the path itself. Nothing if there are
/// none.
[[nodiscard]] std::optional<std::filesystem::path> find_steps(const std::filesystem::path& path);

/// All steps that a path means, whole or not, ascending: those of a run, those in a directory, or the step
/// itself. Error(kBadData) if there are none, with the place where a run says that they are.
[[nodiscard]] std::vector<StepPlace> steps_at(const std::filesystem::path& path);

/// The saved step with the lowest held-out loss, as the newest step that is whole says; its number is 0 if
/// none was evaluated or none is whole.
[[nodiscard]] HeldOutStep best_step(const std::vector<StepPlace>& steps);

/// A step of a directory by its number, or kNewestStep or kBestStep; nothing if it is not there. Errors as
/// newest_step().
[[nodiscard]] std::optional<FoundStep> step_in(const std::filesystem::path& directory, std::int64_t which,
                                               const TellBroken& on_broken);
/// Checkpoint `which` among `steps` of the directory, ascending, each read by `read`.
[[nodiscard]] std::optional<FoundStep> step_in(const std::filesystem::path& directory,
                                               const std::vector<StepPlace>& steps, const ReadStep& read,
                                               std::int64_t which, const TellBroken& on_broken);

/// Text for a missing checkpoint: "there is no saved step 99 in runs/x/checkpoints, which holds 20, 40".
[[nodiscard]] std::string missing_step_text(const std::filesystem::path& directory, std::int64_t which);

/// The step that a path means: itself if it is one, else that one of its steps. Nothing if there are no
/// steps. Error(`code`) if there are and that one is not among them; else as newest_step(). With a step of an
/// earlier version comes where its run was started, if the run's copy of the job says so.
[[nodiscard]] std::optional<FoundStep> find_step(const std::filesystem::path& path, std::int64_t which,
                                                 ExitCode code);

}  // namespace sluice
