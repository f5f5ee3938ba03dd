// Existence of paths, where "no" is told apart from a system that does not answer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

/// Whether a path exists, through links. Error(kIo) with the cause if the system does not tell: a directory
/// that may not be searched, a stale mount, a failing disk.
[[nodiscard]] bool path_exists(const std::filesystem::path& path);

/// Whether a path is a directory, through links. Error(kIo) as path_exists().
[[nodiscard]] bool directory_exists(const std::filesystem::path& path);

/// Entries of a directory, in no order; empty where there is no directory. Error(kIo) if it cannot be listed.
[[nodiscard]] std::vector<std::filesystem::path> entries_in(const std::filesystem::path& directory);

/// "out is a link to /data/out, which is not there" for a path that is, or goes through, a link that leads nowhere:
/// the system calls it an existing file, and yet nothing can be created there. "" for other paths.
[[nodiscard]] std::string dangling_link_text(const std::filesystem::path& path);

/// Creates a directory and those above it. Error(kIo) with the cause.
void make_directories(const std::filesystem::path& directory);

}  // namespace sluice
