// Pre-tokenizer: splits a normalized text into words, which are encoded one by one.
#pragma once

#include "text/json_node.hpp"
#include "text/matching/matcher.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

/// Words of a text, in order. Some steps change a word's text, which `owned` then holds.
struct Words {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;
  std::vector<std::string_view> next;  ///< working memory of a step
  void clear();
};

/// Pre-tokenizer of tokenizer.json: splits a text into words.
class PreTokenizer {
 public:
  PreTokenizer() = default;  ///< a pre-tokenizer for which a text is a single word
  /// Reads Split, ByteLevel (the last step), Metaspace, Digits or a Sequence of them. Error(kBadData), with
  /// its name, for any other.
  explicit PreTokenizer(const JsonNode& node);

  /// Place of a text that is split.
  struct Place {
    bool at_start = true;  ///< whether the text begins the input, which Metaspace may need
    bool begins = true;    ///< whether the text does not continue one that was cut
  };

  /// Appends the words of `text`, which must outlive them.
  void split(std::string_view text, const Place& place, Words& words) const;

  /// Whether any step examines more of a text than its blanks.
  [[nodiscard]] bool has_patterns() const;
  /// Whether words are encoded as bytes.
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
