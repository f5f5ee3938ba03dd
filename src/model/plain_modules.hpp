// Modules whose weights are not quantised, from the patterns of names in a quantization_config.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct PlainModules {
  /// Syntax of the patterns.
  enum class Rule : std::uint8_t {
    /// Pattern of transformers' modules_to_not_convert: a regular expression for the beginning of a name up
    /// to a border between parts ("mlp.gate" does not match "mlp.gate_proj"), or the end of a name.
    kParts,
    /// Pattern of compressed-tensors' ignore: a whole name, or "re:" and a regular expression for the
    /// beginning.
    kNames,
    kGlobs,  ///< pattern of ModelOpt's ignore: a whole name, in which "*" is any text
  };
  std::vector<std::string> patterns;
  Rule rule = Rule::kParts;
  std::string name;  ///< JSON key of the list, for messages: "…/config.json: quantization_config: ignore"

  /// Whether a pattern matches the module of this name ("model.layers.0.mlp.gate"). Error(kBadData) for an
  /// invalid regular expression.
  [[nodiscard]] bool contain(std::string_view module) const;
};

}  // namespace sluice
