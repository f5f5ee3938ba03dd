// Manifest of a checkpoint; FORMAT.md describes the file.
#pragma once

#include "adapter/peft_adapter.hpp"
#include "base/digest.hpp"
#include "base/dtype.hpp"
#include "base/range.hpp"
#include "base/round.hpp"
#include "config/job_config.hpp"
#include "data/pack_position.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Bytes of a block: files have a digest for each block, which is read and verified as a whole.
inline constexpr std::int64_t kSavedBlockBytes = 4 * kMiB;
inline constexpr std::string_view kManifestFile = "manifest.json";

/// Entry of a file: numbers [numbers.begin, numbers.end) of an array of a logical tensor, which begin at byte
/// `offset`.
struct SavedEntry {
  std::string tensor;
  std::string array;  ///< name of the array, see StateSpan::array
  DType dtype = DType::kFloat32;
  Range numbers;
  std::int64_t offset = 0;

  [[nodiscard]] std::int64_t bytes() const { return numbers.count() * size_of(dtype); }
};

struct SavedFile {
  std::string name;  ///< file name in the checkpoint's directory
  std::int64_t bytes = 0;
  std::vector<SavedEntry> entries;  ///< entries, ascending by offset; none in companion files
  std::vector<Digest> blocks;       ///< digest of each kSavedBlockBytes of the file
  /// Hosts on which the file was written, as indices of SavedStep::hosts, its rank's host first; empty: on
  /// all of them.
  std::vector<int> hosts{};

  [[nodiscard]] std::int64_t block_count() const { return divide_up(bytes, kSavedBlockBytes); }
  /// Bytes of one block of the file; the last block may be shorter.
  [[nodiscard]] Range block_bytes(std::int64_t block) const {
    return common({block * kSavedBlockBytes, (block + 1) * kSavedBlockBytes}, {0, bytes});
  }
};

/// A held-out loss, and the step that has it.
struct HeldOutStep {
  std::int64_t step = 0;  ///< step with that loss; 0: none
  double loss = 0;
};

/// Course of the evaluations on held-out tokens: the step with the lowest loss, saved or not, and how many
/// evaluations in a row have not found a lower one.
struct HeldOutProgress {
  HeldOutStep lowest{};
  std::int64_t since = 0;

  /// Adds an evaluation; returns whether it has the lowest loss. A loss that is not finite never is.
  bool add(std::int64_t step, double loss);
};

/// Adapters of a training: which weights they adapt, and how, and the style in which PEFT gets them.
struct SavedAdapters {
  AdapterDescription description{};
  PeftStyle style{};
};

struct SavedStep {
  std::int64_t step = 0;  ///< number of updates that have been made
  /// Number of the start of the run that saved the checkpoint; 0 in checkpoints of earlier versions.
  std::int64_t attempt = 0;
  std::string saved{};    ///< time of the save, UTC
  std::string version{};  ///< version of the program that saved the step
  std::string structure_hash{};
  int world_size = 1;
  std::vector<ConfigEntry> job{};  ///< every key of the job with its value
  /// Directory in which relative paths of the job begin; "" in checkpoints of earlier versions.
  std::filesystem::path started_in{};
  std::int64_t sequences = 0;           ///< number of sequences in the token files
  std::string data_digest{};            ///< digest of some of these sequences
  std::string whole_data_digest{};      ///< digest of all tokens; "" of large files and in earlier versions
  std::vector<PackPosition> packing{};  ///< position in each source, if documents are packed
  /// Digest of the frozen weights, which the checkpoint does not hold; "" if there are none.
  std::string base_digest{};
  SavedAdapters adapters{};  ///< adapters; empty in checkpoints of earlier versions, whose job describes them
  HeldOutStep best{};        ///< lowest held-out loss of the checkpoints so far, this one included
  HeldOutProgress held_out{};
  /// Names of the hosts that saved, each to a disk of its own (format 2); empty if all ranks saved to one
  /// file system (format 1).
  std::vector<std::string> hosts{};
  std::vector<SavedFile> files{};

  [[nodiscard]] std::int64_t bytes() const;
  /// Value of a key of the job, as TOML; "" if there is no such key.
  [[nodiscard]] std::string key(std::string_view name) const;
  /// Value of a key of the job that holds a text; "" if there is no such key.
  [[nodiscard]] std::string text(std::string_view name) const;
  /// Value of a key of the job that holds a path, as an absolute path if `started_in` is known.
  [[nodiscard]] std::filesystem::path path(std::string_view name) const;
  /// Whether the checkpoint holds only adapters, and no weights of the model.
  [[nodiscard]] bool holds_adapters() const;
  /// Names of the hosts on which a file was written: "h2 and h3"; "" for format 1.
  [[nodiscard]] std::string hosts_text(const SavedFile& file) const;
};

[[nodiscard]] std::string to_manifest(const SavedStep& step);
/// Parses a manifest. Error(kBadData) with `name` and the fault: broken JSON, another digest than its own,
/// another format, a key that is missing or of the wrong type, a name that leads out of the directory,
/// entries beyond their file.
[[nodiscard]] SavedStep parse_manifest(std::string_view text, const std::string& name);

/// Serialized form of a file's description, for messages between a rank and rank 0. Not a file format.
[[nodiscard]] std::string to_text(const SavedFile& file);
[[nodiscard]] SavedFile saved_file_from(std::string_view text);

}  // namespace sluice
