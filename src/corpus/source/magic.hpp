// Recognises compressed and binary files by their first bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace sluice::corpus {

/// Whether the front of a file is that of HDF5, optionally behind a user block.
[[nodiscard]] bool is_hdf5(std::string_view head);

/// What the user said about the form of a file; with kText, magic numbers that a text may begin with are
/// ignored.
enum class Told : std::uint8_t { kNothing, kText };

/// Error(kBadData), with what to do, if the front of the file is that of a compressed or binary file.
void require_no_magic(std::string_view head, const std::filesystem::path& path, Told told);

}  // namespace sluice::corpus
