// Modules whose weights a quantization_config leaves as they are, by patterns of their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct PlainModules {
  /// Meaning of a pattern.
  enum class Rule : std::uint8_t {
    /// transformers' modules_to_not_convert: a regular expression of the beginning of a name up to a border
    /// between parts ("mlp.gate" is not "mlp.gate_proj"), or the end of a name.
    kParts,
    /// compressed-tensors' ignore: a whole name, or "re:" and a regular expression of the beginning.
    kNames,
    kGlobs,  ///< ModelOpt's ignore: a whole name, in which "*" is any text
  };
  std::vector<std::string> patterns;
  Rule rule = Rule::kParts;
  std::string name;  ///< JSON key of the list, for messages: "…/config.json: quantization_config: ignore"

  /// Whether a pattern means the module of that name ("model.layers.0.mlp.gate"). Error(kBadData) for a
  /// pattern that is no regular expression.
  [[nodiscard]] bool contain(std::string_view module) const;
};

}  // namespace sluice
