// The directory of saved steps: checkpoints/step-00000100/, one for each.
#pragma once

#include "checkpoint/saved_step.hpp"

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

/// Reads a step's manifest, and looks whether all its files are there in their lengths. Error(kBadData) with the first
/// thing that is wrong.
[[nodiscard]] SavedStep read_saved_step(const std::filesystem::path& directory);

struct FoundStep {
  std::filesystem::path path;
  SavedStep step;
};
/// The newest step that is whole; `on_broken` is told of each newer one that is not, with the reason, and of one that an
/// earlier attempt has saved than the step before it. Nothing if there is
/// no step at all; Error(kBadData) if there are and none is whole: to begin anew would be to lose them.
[[nodiscard]] std::optional<FoundStep> newest_step(const std::filesystem::path& directory,
                                                   const std::function<void(const std::string&)>& on_broken);

/// Takes a step away: under its name it is there whole or not at all, whenever that ends.
void remove_step(const std::filesystem::path& path);

/// Steps that go when the newest has been saved: all but the last `keep`, those divisible by `keep_every` (0: none), and
/// `best`.
[[nodiscard]] std::vector<StepPlace> steps_to_remove(const std::vector<StepPlace>& steps, std::int64_t keep,
                                                     std::int64_t keep_every, std::int64_t best = 0);

}  // namespace sluice
