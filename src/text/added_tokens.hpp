// Tokens that stand for themselves wherever they are written, in front of everything else.
#pragma once

#include "text/json_node.hpp"
#include "text/normalizer.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

/// A token id. Ids of vocabularies are below kMostIds.
using TokenId = std::int32_t;
inline constexpr TokenId kMostIds = 1 << 24;

/// A token that is found in the text before it is split into words.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< whether it matches only where no letter or digit touches it
  bool lstrip = false;       ///< takes blanks before it
  bool rstrip = false;       ///< takes blanks behind it
  bool normalized = true;    ///< looked for in the normalized text
  bool special = false;      ///< whether decoding may leave it out

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// The content and the flags of a token.
[[nodiscard]] AddedToken read_added_token(const JsonNode& node);
/// The list "added_tokens" of a document; none if there is no such list.
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const JsonNode& document);

/// A part of a text: an added token, or what lies between them (id -1).
struct TextPart {
  std::string_view text;
  TokenId id = -1;
};

/// Finds the longest of some tokens, from the left, as the tokenizers library does.
class AddedTokenFinder {
 public:
  AddedTokenFinder() : nodes_(1) {}
  /// `content` is what stands in the text; an empty one is never found.
  void add(std::string content, const AddedToken& token);
  [[nodiscard]] bool is_empty() const { return tokens_.empty(); }
  /// Appends the parts of `text`, in order.
  void split(std::string_view text, std::vector<TextPart>& parts) const;

  /// Whether a text may be cut as Cuts has it (matcher.hpp): no token lies across such a place, or takes
  /// blanks from its other side.
  [[nodiscard]] bool allows_cuts() const;

 private:
  struct Node {
    std::int32_t token = -1;
    std::vector<std::pair<unsigned char, std::int32_t>> next;  ///< ascending by byte
  };
  struct Found {
    std::size_t bytes = 0;
    std::int32_t token = -1;
  };
  [[nodiscard]] Found longest_at(std::string_view text, std::size_t at) const;
  [[nodiscard]] static const std::int32_t* child(const Node& node, unsigned char byte);

  std::vector<Node> nodes_;
  bool begins_[256] = {};  ///< whether a token begins with this byte
  std::vector<AddedToken> tokens_;
};

}  // namespace sluice::text
