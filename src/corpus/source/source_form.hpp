// Form of a file's content by its first bytes and lines; its name counts where these do not tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace sluice::corpus {

/// Form of a file as the user gives it.
enum class Format {
  kAuto,  ///< the form that its first bytes and lines show
  kText,
  kJsonLines,
  kJson,
};

/// Form of a file's content.
enum class SourceForm : std::uint8_t {
  kText,
  kJsonLines,   ///< one object per line
  kJsonValues,  ///< objects, each over any number of lines, in an array or one after another
};

/// Bytes at the front of a file that tell what it holds.
inline constexpr std::size_t kHeadBytes = std::size_t{1} << 20;

/// What is known of a file's content: all of it, or its front.
enum class KnownPart : std::uint8_t { kAll, kFront };

/// Form of the file of which `head` is the part known. With kAuto the first rule that holds: a name that ends
/// in .txt is text; a first line, or most of the first lines, that is a JSON object makes lines; one array of
/// objects, or objects over several lines, make values; .jsonl and .ndjson are lines and .json is values;
/// anything else is text. Error(kBadData) for compressed and binary files, known by their first bytes, with
/// what to do about it; with kText only for those whose first bytes are no text.
[[nodiscard]] SourceForm form_of(std::string_view head, KnownPart part, const std::filesystem::path& path,
                                 Format format);

/// Form of a regular file. Error(kBadData) also if the file cannot be read.
[[nodiscard]] SourceForm form_of_file(const std::filesystem::path& path, Format format = Format::kAuto);

/// Whether the path of a `data.tokens`-like key is read as text, not as a token file (HDF5). A token file is
/// known by its first bytes, or by its name (.h5, .hdf5) if it is damaged. A file of another name is text if
/// it holds JSON rows, or no byte that text cannot contain. An unreadable file is judged by its name.
/// Error(kBadData) for a stream, which can be read only once, and for a compressed or binary file.
[[nodiscard]] bool is_text(const std::filesystem::path& path);

}  // namespace sluice::corpus
