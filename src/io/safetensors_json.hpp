// The JSON part of a safetensors header: syntax, structure and types, before any number is given a meaning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// One tensor object as it stands in the header.
struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> offsets;  ///< data_offsets: [begin, end), counted from the start of the data
};

/// Header of a safetensors file as its JSON has it, before any check of the numbers.
struct RawHeader {
  std::vector<RawTensor> tensors;  ///< tensors in the header's order, names unescaped, all different
  std::map<std::string, std::string> metadata;
};

/// Parses the header's text; memory stays within a constant times its length. `file` is used in messages.
/// Error(kBadData) with the rule of FORMAT.md that is broken.
[[nodiscard]] RawHeader parse_safetensors_json(std::string_view json, const std::string& file);

/// Throws Error(kBadData): `file` is not valid because of `found`, by `rule`.
[[noreturn]] void reject_safetensors(const std::string& file, std::string_view rule,
                                     const std::string& found);

}  // namespace sluice
