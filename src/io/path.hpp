// Paths: whether something is there, where "no" is told apart from a system that does not say.
#pragma once

#include <filesystem>
#include <vector>

namespace sluice {

/// Whether something is there, through links. Error(kIo) with the cause where the system does not say: a
/// directory that may not be searched, a mount that is stale, a disk that fails.
[[nodiscard]] bool path_exists(const std::filesystem::path& path);

/// Whether a directory is there, through links. Error(kIo) as above.
[[nodiscard]] bool directory_exists(const std::filesystem::path& path);

/// Entries of a directory, in no order; empty where there is no directory. Error(kIo) if it cannot be listed.
[[nodiscard]] std::vector<std::filesystem::path> entries_in(const std::filesystem::path& directory);

}  // namespace sluice
