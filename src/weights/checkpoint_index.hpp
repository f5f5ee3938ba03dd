// Index of a Hugging Face model directory: its safetensors files and the tensors in them. Headers only, no
// weights.
#pragma once

#include "base/dtype.hpp"
#include "comm/communicator.hpp"
#include "encoding/encoding.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One safetensors file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< file name inside the directory
  std::int64_t bytes = 0;
};

/// A published tensor: bytes [begin, begin + bytes) of files[file]. With an encoding these are codes, and
/// type and shape are those of the weights that the codes stand for.
struct CheckpointEntry {
  std::string name;  ///< tensor name; a quantised weight has its plain name, "….q_proj.weight"
  int file = 0;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
  int encoding = -1;  ///< index in CheckpointIndex::encodings; -1: the bytes are the elements themselves
};

/// A tensor that `model.safetensors.index.json` lists, but that the file named there does not hold.
struct AbsentTensor {
  std::string name;
  std::string file;
};

/// All tensors of a checkpoint, and the files that they lie in.
struct CheckpointIndex {
  std::string directory;  ///< directory as the user named it, for messages
  std::vector<CheckpointFile> files;
  std::vector<CheckpointEntry> entries;  ///< ordered by file, then by begin; without the scales of encodings
  std::vector<Encoding> encodings{};
  std::vector<AbsentTensor> absent{};  ///< tensors that are missing, sorted by name
  std::vector<std::string> warnings;   ///< findings that do not prevent a load

  /// Encoding of an entry; null if its bytes are its elements.
  [[nodiscard]] const Encoding* encoding_of(const CheckpointEntry& entry) const {
    return entry.encoding < 0 ? nullptr : &encodings[static_cast<std::size_t>(entry.encoding)];
  }
  /// Whether blocks of an entry's scales begin anew within a matrix, as at each head's keys: what multiplies by codes
  /// knows none, and nor does what quantises.
  [[nodiscard]] bool begins_blocks_anew(const CheckpointEntry& entry) const {
    const Encoding* encoding = encoding_of(entry);
    return encoding != nullptr && encoding->codes != Codes::kBFloat16 &&
           encoding->rows < entry.shape[entry.shape.size() - 2];
  }
  /// Bytes of an entry's first `count` elements, without scales.
  [[nodiscard]] std::int64_t bytes_of(const CheckpointEntry& entry, std::int64_t count) const {
    const Encoding* encoding = encoding_of(entry);
    return encoding == nullptr ? count * size_of(entry.dtype) : encoding->code_bytes(count);
  }
  /// Bytes of an entry in the files, scales included.
  [[nodiscard]] std::int64_t stored_bytes(const CheckpointEntry& entry) const {
    const Encoding* encoding = encoding_of(entry);
    return entry.bytes + (encoding == nullptr ? 0 : encoding->own_scale_bytes());
  }
  /// Element type or encoding of an entry, as text: "bfloat16".
  [[nodiscard]] std::string form_of(const CheckpointEntry& entry) const {
    const Encoding* encoding = encoding_of(entry);
    return encoding == nullptr ? std::string(name_of(entry.dtype)) : encoding->text();
  }

  /// Serialized form for a broadcast to ranks that may not see the files; exact both ways.
  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static CheckpointIndex from_bytes(std::string_view bytes);
};

/// Whether a model directory has weights beside its config.json, complete or not.
[[nodiscard]] bool holds_weights(const std::filesystem::path& directory);

/// How quantised weights appear in an index.
enum class QuantisedAs : std::uint8_t {
  kWeights,  ///< one entry for each weight (join_quantised())
  kStored,   ///< one entry for each tensor of the files
};

/// Reads `model.safetensors`, or `model.safetensors.index.json` and the header of every file it names; links
/// are followed. Quantised weights become one entry each, held against the directory's config.json, unless
/// they are wanted as stored. Error(kBadData) with all that is wrong with the directory in one text: files missing or
/// broken, tensors in two files, or not where the index says. Error(kIo) if the system refuses. Tensors that
/// no file holds are told in `absent`: only who knows the model can say whether it does without them
/// (match_checkpoint()).
[[nodiscard]] CheckpointIndex read_checkpoint_index(const std::filesystem::path& directory,
                                                    QuantisedAs quantised = QuantisedAs::kWeights);

/// Check for callers that do not know the model: Error(kBadData) if a tensor is missing, unless it is of a
/// kind that no model here reads.
void require_listed_tensors(const CheckpointIndex& index);

/// Collective over `comm`. Rank 0 reads the index, and every rank gets it; if rank 0 fails, every rank throws
/// its error.
[[nodiscard]] CheckpointIndex share_checkpoint_index(Communicator& comm,
                                                     const std::filesystem::path& directory,
                                                     QuantisedAs quantised = QuantisedAs::kWeights);

}  // namespace sluice
