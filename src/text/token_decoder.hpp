// Decoder of a tokenizer: joins the texts of tokens to a text.
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
  /// Reads ByteLevel; Metaspace; or a Sequence of Replace, ByteFallback, Fuse and Strip in that order, each
  /// of which may be missing. Error(kBadData), with its name, for any other.
  [[nodiscard]] static DecoderRules read(const JsonNode& node);

  bool byte_level = false;
  /// Pairs of a text in a token and its replacement.
  std::vector<std::pair<std::string, std::string>> replaced;
  std::string dropped_from_first;  ///< text that is removed everywhere in the first token alone
  bool byte_fallback = false;      ///< whether tokens <0xNN> are bytes
  std::string stripped;            ///< text that is removed from the front, up to strip_count times
  std::int64_t strip_count = 0;
};

/// Joins texts of tokens one by one, and never returns half a character. All returned text together is what
/// the tokenizers library makes of all tokens at once.
class TokenTextJoiner {
 public:
  /// `rules` must outlive this object.
  explicit TokenTextJoiner(const DecoderRules& rules) : rules_(&rules), strips_left_(rules.strip_count) {}

  /// Adds a token; returns the text that has become certain, often "".
  [[nodiscard]] std::string add(std::string_view token);
  /// Rest of the text at the end; U+FFFD for bytes that are not UTF-8.
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string add_bytes(std::string_view bytes);
  [[nodiscard]] std::string take_byte_run();
  [[nodiscard]] std::string text_of(std::string_view token);
  [[nodiscard]] std::string stripped(std::string text);

  const DecoderRules* rules_;
  std::string waiting_;  ///< bytes of an incomplete character, or of a run of byte tokens
  bool is_first_ = true;
  std::int64_t strips_left_;
};

}  // namespace sluice::text
