// The normalizer of a tokenizer: what becomes of a text before it is split.
#pragma once

#include "text/json_node.hpp"
#include "text/unicode.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

/// Normalizer of tokenizer.json: a text before it is split into words.
class Normalizer {
 public:
  Normalizer() = default;  ///< a normalizer that changes nothing
  /// NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace (of a text) or a Sequence of them.
  /// Error(kBadData) for any other, by name.
  explicit Normalizer(const JsonNode& node);

  [[nodiscard]] bool changes_nothing() const { return steps_.empty(); }
  /// Ends of the text that apply() gets which are ends of the whole text: Prepend and Strip act there alone.
  struct Ends {
    bool begins = true;  ///< the text does not continue one that was cut
    bool ends = true;    ///< whether nothing of the same text follows
  };
  [[nodiscard]] std::string apply(std::string_view text, Ends whole) const;
  /// Whether nothing happens across, or to, a line break.
  [[nodiscard]] bool keeps_line_breaks() const;

 private:
  struct Step {
    enum class Kind { kNormalForm, kLowerCase, kStrip, kPrepend, kReplace } kind;
    std::string pattern{};
    std::string content{};
    NormalForm form = NormalForm::kC;
    bool left = false, right = false;  ///< ends at which Strip takes blanks away
  };
  void add(const JsonNode& node);
  std::vector<Step> steps_;
};

/// `text` with every occurrence of `pattern`, which is not empty, from the left replaced.
[[nodiscard]] std::string replaced(std::string_view text, std::string_view pattern, std::string_view content);

/// The text of a pattern {"String": …} at the key "pattern" of `node`; Error(kBadData) for another pattern.
[[nodiscard]] std::string literal_pattern(const JsonNode& node);

}  // namespace sluice::text
