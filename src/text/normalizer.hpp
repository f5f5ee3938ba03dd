// Normalizer of a tokenizer: changes a text before it is split.
#pragma once

#include "text/json_node.hpp"
#include "text/unicode/unicode.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

/// Normalizer of tokenizer.json: a text before it is split into words.
class Normalizer {
 public:
  Normalizer() = default;  ///< a normalizer that changes nothing
  /// Reads NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace (of a text) or a Sequence of them.
  /// Error(kBadData), with its name, for any other.
  explicit Normalizer(const JsonNode& node);

  [[nodiscard]] bool changes_nothing() const { return steps_.empty(); }
  /// Whether the text given to apply() begins and ends a whole text, since Prepend and Strip act only there.
  struct Ends {
    bool begins = true;  ///< whether the text does not continue one that was cut
    bool ends = true;    ///< whether nothing of the same text follows
  };
  [[nodiscard]] std::string apply(std::string_view text, Ends whole) const;
  /// Whether line breaks stay as they are, and nothing happens across them.
  [[nodiscard]] bool keeps_line_breaks() const;

 private:
  struct Step {
    enum class Kind { kNormalForm, kLowerCase, kStrip, kPrepend, kReplace } kind;
    std::string pattern{};
    std::string content{};
    NormalForm form = NormalForm::kC;
    bool left = false, right = false;  ///< whether Strip removes blanks at the left and right end
  };
  void add(const JsonNode& node);
  std::vector<Step> steps_;
};

/// `text` with every occurrence of `pattern`, which must not be empty, replaced from the left.
[[nodiscard]] std::string replaced(std::string_view text, std::string_view pattern, std::string_view content);

/// Text of a pattern {"String": …} at the key "pattern" of `node`; Error(kBadData) for another pattern.
[[nodiscard]] std::string literal_pattern(const JsonNode& node);

}  // namespace sluice::text
