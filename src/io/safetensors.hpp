// The safetensors format: u64 little-endian header length, a JSON header, then the tensors' bytes.
// Rules and failures are those of the reference reader (huggingface/safetensors, safetensors/src/tensor.rs);
// see FORMAT.md.
#pragma once

#include "base/dtype.hpp"
#include "io/file.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One tensor of a file. Its bytes are [begin, begin + bytes) counted from the start of the file.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

/// Header of a safetensors file: its tensors, and their places in the file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry>
      entries;  ///< ordered by begin; together they tile the file's data without hole or overlap
  std::map<std::string, std::string> metadata;
  std::int64_t data_begin = 0;
};

/// Parses the header alone: nothing but the header is read, and no more memory is used than a constant times
/// its length. Error(kBadData) naming the file, the tensor, the rule and what was found.
[[nodiscard]] SafetensorsHeader read_safetensors_header(const InputFile& file);

/// Parses a safetensors header from memory, for tests and fuzzing. `file_bytes` is the length of the whole
/// file; messages call it `name`.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view header_json,
                                                         std::int64_t file_bytes, const std::string& name);

/// The header bytes of a file that holds `entries` (name, dtype, shape) in this order, length prefix included
/// and padded with blanks to 8 bytes; fills in begin and bytes of each entry.
[[nodiscard]] std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                                  const std::map<std::string, std::string>& metadata);

}  // namespace sluice
