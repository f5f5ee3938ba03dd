// Checks that results can be written before the job computes them.
#pragma once

#include "comm/communicator.hpp"
#include "config/job_config.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sluice {

/// The nearest existing ancestor of `target`, or `target` itself.
[[nodiscard]] std::filesystem::path existing_part(const std::filesystem::path& target);

/// Text about what this process sees of the directories of a job: run directory, checkpoints, model, adapter and
/// offload files, or the parts of them that exist. Two processes of one machine with the same text see the same
/// files there; on different machines it says nothing.
[[nodiscard]] std::string files_seen(const JobConfig& config);

/// Changes nothing on disk: Error(kIo), naming `key` of the job file, if `target` cannot be created in
/// existing_part() of its parent, judged by its type and permissions.
void require_creatable(std::string_view key, const std::filesystem::path& target);

/// Error(kIo), naming `key`, if the file system of `directory`, or of its nearest ancestor that is there, has
/// not so many bytes free. The message says `what`, "the export takes", before the bytes, and ends with
/// `advice`.
void require_room(std::string_view key, std::string_view what, const std::filesystem::path& directory,
                  std::int64_t bytes, std::string_view advice);

/// Directory of the files of memory.offload = "disk".
[[nodiscard]] std::filesystem::path offload_directory(const JobConfig& config);

/// Error(kIo) if the disk of memory.offload has not so many bytes left; where its directory is not there yet,
/// that of the nearest one above it.
void require_offload_room(const JobConfig& config, std::int64_t bytes);

/// Tries to create a file beside `target`, whose directory exists, and removes it again. Error(kIo) with
/// `key` if that fails.
void try_to_create_beside(std::string_view key, const std::filesystem::path& target);

/// Which ranks must see a directory that rank 0 creates.
enum class SeenBy : bool { kAllRanks, kAnyRanks };

/// Collective over `comm`. Makes and removes again what a job will make for `target`: a directory beside it
/// that ranks write into. Error(kIo) with the key if a rank cannot that must see it, or that does.
void require_shared_directory(Communicator& comm, std::string_view key, const std::filesystem::path& target,
                              SeenBy seen_by = SeenBy::kAllRanks);

}  // namespace sluice
