// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Content of model.safetensors.index.json.
struct WeightMap {
  std::vector<std::string> files;      ///< file names inside the model directory, in order of first mention
  std::map<std::string, int> tensors;  ///< index in `files` of each tensor's file, by the tensor's name
  std::optional<std::int64_t> total_size;
};

/// Parses an index. Error(kBadData) with `name` for broken JSON, a key given twice, a value of the wrong
/// type, no weight_map, or a file name that could lead out of the directory (absolute, or with an empty, "."
/// or ".." part).
[[nodiscard]] WeightMap parse_weight_map(std::string_view json, const std::string& name);

}  // namespace sluice
