// Compressed and binary files, by the bytes with which they begin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace sluice::corpus {

/// Whether the front of a file is that of HDF5, perhaps behind a block of the user's own.
[[nodiscard]] bool is_hdf5(std::string_view head);

/// What the user says of a file: kText, that it is text, so that first bytes which a text can have mean
/// nothing.
enum class Told : std::uint8_t { kNothing, kText };

/// Error(kBadData), with what to do about it, if the front of the file is that of a compressed or binary one.
void require_no_magic(std::string_view head, const std::filesystem::path& path, Told told);

}  // namespace sluice::corpus
