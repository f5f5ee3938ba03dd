// The decoder of a tokenizer: how the texts of tokens become a text again.
#pragma once

#include "text/json_node.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::text {

/// Steps of a decoder, in order.
struct DecoderRules {
  /// ByteLevel; Metaspace; or a Sequence of Replace, ByteFallback, Fuse and Strip in that order, each left
  /// out or not. Error(kBadData) for any other, by name.
  [[nodiscard]] static DecoderRules read(const JsonNode& node);

  bool byte_level = false;
  /// Pairs of a text in a token and its replacement.
  std::vector<std::pair<std::string, std::string>> replaced;
  std::string dropped_from_first;  ///< every occurrence, of the first token alone
  bool byte_fallback = false;      ///< tokens <0xNN> are bytes
  std::string stripped;            ///< text that is removed from the front, up to strip_count times
  std::int64_t strip_count = 0;
};

/// Texts of tokens to text, bit by bit: never half a character. What it has handed out is never taken back,
/// and all of it together is what the tokenizers library makes of all tokens at once.
class TokenTextJoiner {
 public:
  /// `rules` must outlive it.
  explicit TokenTextJoiner(const DecoderRules& rules) : rules_(&rules), strips_left_(rules.strip_count) {}

  /// Text that is certain after one more token; often "".
  [[nodiscard]] std::string add(std::string_view token);
  /// The rest of the text at the end: U+FFFD for bytes that are no text.
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string add_bytes(std::string_view bytes);
  [[nodiscard]] std::string take_byte_run();
  [[nodiscard]] std::string text_of(std::string_view token);
  [[nodiscard]] std::string stripped(std::string text);

  const DecoderRules* rules_;
  std::string waiting_;  ///< bytes of a character that may go on, or of a run of byte tokens
  bool is_first_ = true;
  std::int64_t strips_left_;
};

}  // namespace sluice::text
