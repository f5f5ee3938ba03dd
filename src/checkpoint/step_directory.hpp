// The directory of saved steps: checkpoints/step-00000100/, one for each.
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

/// checkpoint.path, or "checkpoints" in the run directory.
[[nodiscard]] std::filesystem::path checkpoint_directory(const JobConfig& config);

/// "step-00000100"
[[nodiscard]] std::string step_name(std::int64_t step);

/// A directory that has the name of a saved step, whole or not.
struct StepPlace {
  std::int64_t step = 0;
  std::filesystem::path path;
};
/// Ascending. None if there is no such directory.
[[nodiscard]] std::vector<StepPlace> list_steps(const std::filesystem::path& directory);

/// Whether a directory is one saved step, by its manifest.
[[nodiscard]] bool is_saved_step(const std::filesystem::path& directory);

/// Writes a step's manifest into `directory`; to be closed, which syncs it. Error(kIo).
[[nodiscard]] OutputFile create_manifest(const std::filesystem::path& directory, const SavedStep& step);
/// Reads a step's manifest alone. Error(kBadData) as parse_manifest(), or if there is none.
[[nodiscard]] SavedStep read_manifest(const std::filesystem::path& directory);

/// Error(kBadData) if a file of a step is missing in `directory` or has another length.
void require_file(const std::filesystem::path& directory, const SavedFile& file);

/// Reads a step's manifest, and looks whether all its files are there in their lengths; where each host saved
/// its own (format 2), those of other hosts may be missing. Error(kBadData) with the first thing that is
/// wrong.
[[nodiscard]] SavedStep read_saved_step(const std::filesystem::path& directory);

/// Error(kBadData) if a file of a step lies on other hosts alone, with their names.
void require_all_files(const std::filesystem::path& directory, const SavedStep& step);

struct FoundStep {
  std::filesystem::path path;
  SavedStep step;
};
/// Reads a step: Error(kBadData) if it is not whole.
using ReadStep = std::function<SavedStep(const StepPlace&)>;
/// Is told of a step that is not whole, and why.
using TellBroken = std::function<void(const std::string&)>;

/// The newest step of `directory` that is whole; `on_broken` is told of each newer one that is not, with the
/// reason, and of one that an earlier attempt has saved than the step before it. Nothing if there is no step
/// at all; Error(kBadData) if there are and none is whole: to begin anew would be to lose them.
[[nodiscard]] std::optional<FoundStep> newest_step(const std::filesystem::path& directory,
                                                   const TellBroken& on_broken);
/// Newest complete checkpoint among `steps`, ascending, each read by `read`.
[[nodiscard]] std::optional<FoundStep> newest_step(const std::filesystem::path& directory,
                                                   const std::vector<StepPlace>& steps, const ReadStep& read,
                                                   const TellBroken& on_broken);

/// Removes a checkpoint atomically: readers see a complete directory or none.
void remove_step(const std::filesystem::path& path);

/// Steps that go when the newest has been saved: all but the last `keep`, those divisible by `keep_every` (0:
/// none), and `best`.
[[nodiscard]] std::vector<StepPlace> steps_to_remove(const std::vector<StepPlace>& steps, std::int64_t keep,
                                                     std::int64_t keep_every, std::int64_t best = 0);

}  // namespace sluice
