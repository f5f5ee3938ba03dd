// Directory of checkpoints: checkpoints/step-00000100/, one for each.
#pragma once

#include "checkpoint/saved_step.hpp"
#include "io/file.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Directory of a job's checkpoints: checkpoint.path, or "checkpoints" in the run directory.
[[nodiscard]] std::filesystem::path checkpoint_directory(const JobConfig& config);

/// Name of a checkpoint: "step-00000100".
[[nodiscard]] std::string step_name(std::int64_t step);

/// A directory that is named like a checkpoint, whether complete or not.
struct StepPlace {
  std::int64_t step = 0;
  std::filesystem::path path;
};
/// Lists checkpoints, ascending; empty if there is no such directory.
[[nodiscard]] std::vector<StepPlace> list_steps(const std::filesystem::path& directory);

/// Whether a directory is a single checkpoint, by its manifest.
[[nodiscard]] bool is_saved_step(const std::filesystem::path& directory);

/// Writes a checkpoint's manifest into `directory`; the caller closes the file, which syncs it. Error(kIo).
[[nodiscard]] OutputFile create_manifest(const std::filesystem::path& directory, const SavedStep& step);
/// Reads only the manifest of a checkpoint. Error(kBadData) as parse_manifest(), or if there is none.
[[nodiscard]] SavedStep read_manifest(const std::filesystem::path& directory);

/// Error(kBadData) if a file of a checkpoint is missing in `directory` or has another length.
void require_file(const std::filesystem::path& directory, const SavedFile& file);

/// Reads a checkpoint's manifest, and checks that all its files exist in their lengths; if each host saved
/// its own (format 2), files of other hosts may be missing. Error(kBadData) with the first fault.
[[nodiscard]] SavedStep read_saved_step(const std::filesystem::path& directory);

/// Error(kBadData) if a file of a checkpoint lies only on other hosts, with their names.
void require_all_files(const std::filesystem::path& directory, const SavedStep& step);

struct FoundStep {
  std::filesystem::path path;
  SavedStep step;
};
/// Function that reads a checkpoint; Error(kBadData) if it is incomplete.
using ReadStep = std::function<SavedStep(const StepPlace&)>;
/// Function that gets the text about an incomplete checkpoint, with the reason.
using TellBroken = std::function<void(const std::string&)>;

/// The newest complete checkpoint among `steps` of `directory`, ascending, each read by `read`. `on_broken` gets the
/// reason for each newer one that is incomplete, and for one that an earlier attempt has saved than the checkpoint
/// before it. Nothing if there is none at all; Error(kBadData) if there are some and none is complete, since to begin
/// anew would lose them.
[[nodiscard]] std::optional<FoundStep> newest_step(const std::filesystem::path& directory,
                                                   const std::vector<StepPlace>& steps, const ReadStep& read,
                                                   const TellBroken& on_broken);

/// Removes a checkpoint atomically: readers see a complete directory or none.
void remove_step(const std::filesystem::path& path);

/// Checkpoints to remove when the newest has been saved: all but the last `keep`, those whose step
/// `keep_every` divides (0: none), and `best`.
[[nodiscard]] std::vector<StepPlace> steps_to_remove(const std::vector<StepPlace>& steps, std::int64_t keep,
                                                     std::int64_t keep_every, std::int64_t best = 0);

}  // namespace sluice
