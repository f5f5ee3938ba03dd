// Patterns of names of modules in a quantization_config: modules whose weights stay plain, or those that a
// form of weights is announced for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct ModulePatterns {
  /// Syntax of the patterns.
  enum class Rule : std::uint8_t {
    /// Pattern of transformers' modules_to_not_convert: a regular expression for the beginning of a name up
    /// to a border between parts ("mlp.gate" does not match "mlp.gate_proj"), or the end of a name.
    kParts,
    /// Pattern of compressed-tensors' ignore and targets: a whole name, or "re:" and a regular expression for
    /// the beginning. Names of classes ("Linear") match no module here.
    kNames,
    kGlobs,  ///< pattern of ModelOpt's ignore: a whole name, in which "*" is any text
  };
  std::vector<std::string> patterns;
  Rule rule = Rule::kParts;
  std::string name;  ///< JSON key of the list, for messages: "…/config.json: quantization_config: ignore"

  /// Whether a pattern matches the module of this name ("model.layers.0.mlp.gate"). Error(kBadData) for an
  /// invalid regular expression.
  [[nodiscard]] bool contain(std::string_view module) const;
  /// Pattern that matches a module; nothing: none. Of several, the one that compressed-tensors prefers: whole
  /// names before regular expressions, then the first in the order of their text. Errors as in contain().
  [[nodiscard]] std::optional<std::string> match(std::string_view module) const;
  /// Whether a pattern is a regular expression of compressed-tensors.
  [[nodiscard]] static bool is_expression(std::string_view pattern);

 private:
  [[nodiscard]] bool fits(const std::string& pattern, std::string_view module) const;
};

/// Name of the module that has a weight of this name: "….q_proj" for "….q_proj.weight", and a fused tensor's own
/// name.
[[nodiscard]] std::string_view module_of(std::string_view weight);

}  // namespace sluice
