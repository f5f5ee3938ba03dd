// The pre-tokenizer: cuts a normalized text into words, which are then encoded one by one.
#pragma once

#include "text/json_node.hpp"
#include "text/matcher.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

/// Words of a text, in order. Some steps change their text; `owned` then holds it.
struct Words {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;
  std::vector<std::string_view> next;  ///< room for the step at work
  void clear();
};

/// Pre-tokenizer of tokenizer.json: splits a text into words.
class PreTokenizer {
 public:
  PreTokenizer() = default;  ///< a pre-tokenizer for which a text is one word
  /// Split, ByteLevel (the last step), Metaspace, Digits or a Sequence of them. Error(kBadData) for any
  /// other, by name.
  explicit PreTokenizer(const JsonNode& node);

  /// Where a text is that is split.
  struct Place {
    bool at_start = true;  ///< whether it begins the input, as Metaspace may ask
    bool begins = true;    ///< whether it begins at all, and is not what continues a text that was cut
  };

  /// Appends the words of `text`, which must outlive them.
  void split(std::string_view text, const Place& place, Words& words) const;

  /// Whether any step looks at more of a text than its blanks.
  [[nodiscard]] bool has_patterns() const;
  /// Whether words are taken as bytes.
  [[nodiscard]] bool is_byte_level() const { return is_byte_level_; }
  /// Places at which a text may be cut without changing its words.
  [[nodiscard]] Cuts cuts() const;

 private:
  enum class Behavior : std::uint8_t {
    kRemoved,
    kIsolated,
    kMergedWithPrevious,
    kMergedWithNext,
    kContiguous
  };
  enum class Prefix : std::uint8_t { kNever, kFirst, kAlways };
  struct Step {
    enum class Kind : std::uint8_t { kSplit, kBlankPrefix, kMetaspace } kind;
    std::shared_ptr<const Matcher> matcher = nullptr;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    std::string replacement = "";  ///< text that Metaspace puts in place of blanks
    Prefix prefix = Prefix::kAlways;
    bool splits = true;
  };

  void add(const JsonNode& node);
  void add_split(const JsonNode& node);
  void add_byte_level(const JsonNode& node);
  void add_metaspace(const JsonNode& node);
  static void split_by(const Step& step, std::string_view word, std::vector<std::string_view>& out);
  static void split_metaspace(const Step& step, std::string_view word, bool prefixed, Words& words);

  std::vector<Step> steps_;
  bool is_byte_level_ = false;
};

}  // namespace sluice::text
