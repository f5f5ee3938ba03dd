// Where results will be written: found out before hours are spent on them.
#pragma once

#include <filesystem>
#include <string_view>

namespace sluice {

/// The nearest ancestor of `target`, or itself, that is there.
[[nodiscard]] std::filesystem::path existing_part(const std::filesystem::path& target);

/// For a look without a trace: Error(kIo) if what the system says of existing_part() of the parent lets
/// nobody create `target`, naming `key` of the job file.
void require_creatable(std::string_view key, const std::filesystem::path& target);

/// Creates a file beside `target`, whose directory is there, and removes it again. Error(kIo), naming `key`,
/// if the system refuses.
void try_to_create_beside(std::string_view key, const std::filesystem::path& target);

}  // namespace sluice
