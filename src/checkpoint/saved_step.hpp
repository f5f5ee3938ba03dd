// What the manifest of a saved step says; FORMAT.md describes the file.
#pragma once

#include "base/digest.hpp"
#include "base/dtype.hpp"
#include "base/range.hpp"
#include "config/job_config.hpp"
#include "data/pack_position.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Files have a digest for every so many bytes, which are read and proven as a whole.
inline constexpr std::int64_t kSavedBlockBytes = 4 * kMiB;
inline constexpr std::string_view kManifestFile = "manifest.json";

/// Numbers [numbers.begin, numbers.end) of an array of a logical tensor, from byte `offset` of a file on.
struct SavedEntry {
  std::string tensor;
  std::string array;  ///< as StateSpan::array
  DType dtype = DType::kFloat32;
  Range numbers;
  std::int64_t offset = 0;

  [[nodiscard]] std::int64_t bytes() const { return numbers.count() * size_of(dtype); }
};

struct SavedFile {
  std::string name;  ///< in the step's directory
  std::int64_t bytes = 0;
  std::vector<SavedEntry> entries;  ///< by offset; none in files that only go along
  std::vector<Digest> blocks;       ///< of each kSavedBlockBytes
};

/// A loss on tokens that are held out, and the step that has it.
struct HeldOutStep {
  std::int64_t step = 0;  ///< 0: none
  double loss = 0;
};

struct SavedStep {
  std::int64_t step = 0;  ///< updates that have been made
  std::string saved{};    ///< time of day, UTC
  std::string version{};  ///< of the program
  std::string structure_hash{};
  int world_size = 1;
  std::vector<ConfigEntry> job{};       ///< every key
  std::int64_t sequences = 0;           ///< in the token file
  std::string data_digest{};            ///< of some of them
  std::vector<PackPosition> packing{};  ///< of each source, if documents are packed
  std::string base_digest{};  ///< of the frozen weights, which the step does not hold; "" without any
  HeldOutStep best{};         ///< of the saved steps so far, this one included
  std::vector<SavedFile> files{};

  [[nodiscard]] std::int64_t bytes() const;
  /// The value of a key, as TOML; "" if there is no such key.
  [[nodiscard]] std::string key(std::string_view name) const;
};

[[nodiscard]] std::string to_manifest(const SavedStep& step);
/// Error(kBadData) naming `name` and what is wrong: broken JSON, another digest than its own, another format, a key that
/// is missing or of the wrong type, a name that leads out of the directory, entries beyond their file.
[[nodiscard]] SavedStep parse_manifest(std::string_view text, const std::string& name);

/// What one rank tells rank 0 of its file, and back. Not a file format.
[[nodiscard]] std::string to_text(const SavedFile& file);
[[nodiscard]] SavedFile saved_file_from(std::string_view text);

}  // namespace sluice
