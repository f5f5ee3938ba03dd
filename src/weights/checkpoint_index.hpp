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

/// One published tensor: bytes [begin, begin + bytes) of files[file]. With an encoding these are the codes of
/// its elements, which have the type and the shape that are given here all the same: those of the weights
/// that they stand for.
struct CheckpointEntry {
  std::string name;  ///< tensor name; quantised weights go by their plain name, "….q_proj.weight"
  int file = 0;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
  int encoding = -1;  ///< index into CheckpointIndex::encodings; -1: the bytes are the elements
};

/// A tensor that `model.safetensors.index.json` lists and the file that it names does not hold.
struct AbsentTensor {
  std::string name;
  std::string file;
};

/// All tensors of a checkpoint, and the files that they lie in.
struct CheckpointIndex {
  std::string directory;  ///< the directory as the user named it, for messages
  std::vector<CheckpointFile> files;
  std::vector<CheckpointEntry> entries;  ///< ordered by file, then by begin; without the scales of encodings
  std::vector<Encoding> encodings{};
  std::vector<AbsentTensor> absent{};  ///< tensors that are missing, sorted by name
  std::vector<std::string> warnings;   ///< oddities that do not hinder a load

  /// Null for an entry whose bytes are its elements.
  [[nodiscard]] const Encoding* encoding_of(const CheckpointEntry& entry) const {
    return entry.encoding < 0 ? nullptr : &encodings[static_cast<std::size_t>(entry.encoding)];
  }
  /// Bytes that the first `count` elements take, without their scales.
  [[nodiscard]] std::int64_t bytes_of(const CheckpointEntry& entry, std::int64_t count) const {
    const Encoding* encoding = encoding_of(entry);
    return encoding == nullptr ? count * size_of(entry.dtype) : encoding->code_bytes(count);
  }
  /// All that an entry takes in the files.
  [[nodiscard]] std::int64_t stored_bytes(const CheckpointEntry& entry) const {
    const Encoding* encoding = encoding_of(entry);
    return entry.bytes + (encoding == nullptr ? 0 : encoding->scale_bytes());
  }
  /// "bfloat16", or what the encoding is.
  [[nodiscard]] std::string form_of(const CheckpointEntry& entry) const {
    const Encoding* encoding = encoding_of(entry);
    return encoding == nullptr ? std::string(name_of(entry.dtype)) : encoding->text();
  }

  /// Serialized form for a broadcast to ranks that may not see the files; exact both ways.
  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static CheckpointIndex from_bytes(std::string_view bytes);
};

/// Whether there are weights beside the config.json of a model directory, in whatever state.
[[nodiscard]] bool holds_weights(const std::filesystem::path& directory);

/// Tensors of an index that codes and scales lie in.
enum class QuantisedAs : std::uint8_t {
  kWeights,  ///< one tensor for each weight (join_quantised())
  kStored,   ///< those of the files, each by itself
};

/// Reads `model.safetensors`, or `model.safetensors.index.json` and the header of every file it names; links
/// are followed. Quantised weights become one entry each, held against the directory's config.json, unless
/// they are wanted as stored. Error(kBadData) with all that is wrong with the directory in one text: files missing or
/// broken, tensors in two files, or not where the index says. Error(kIo) if the system refuses. Tensors that
/// no file holds are told in `absent`: only who knows the model can say whether it does without them
/// (match_checkpoint()).
[[nodiscard]] CheckpointIndex read_checkpoint_index(const std::filesystem::path& directory,
                                                    QuantisedAs quantised = QuantisedAs::kWeights);

/// Check for callers that do not know the model: Error(kBadData) if a tensor is absent, unless it is of a
/// kind that no model here reads.
void require_listed_tensors(const CheckpointIndex& index);

/// Collective over `comm`. Rank 0 reads, every rank gets the index; if rank 0 fails, every rank throws its
/// error.
[[nodiscard]] CheckpointIndex share_checkpoint_index(Communicator& comm,
                                                     const std::filesystem::path& directory,
                                                     QuantisedAs quantised = QuantisedAs::kWeights);

}  // namespace sluice
