// Added tokens: they are found in a text before anything else is done with it.
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
  bool single_word = false;  ///< whether it matches only if no letter or digit touches it
  bool lstrip = false;       ///< whether it takes blanks before it
  bool rstrip = false;       ///< whether it takes blanks behind it
  bool normalized = true;    ///< whether it is searched in the normalized text
  bool special = false;      ///< whether decoding may leave it out

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// Reads an added token: its content and its flags.
[[nodiscard]] AddedToken read_added_token(const JsonNode& node);
/// Reads the list "added_tokens" of a document; empty if there is none.
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const JsonNode& document);

/// A part of a text: an added token, or the text between two of them (id -1).
struct TextPart {
  std::string_view text;
  TokenId id = -1;
};

/// Finds added tokens from the left, the longest first, as the tokenizers library does.
class AddedTokenFinder {
 public:
  AddedTokenFinder() : nodes_(1) {}
  /// Adds a token; `content` is its spelling in the text; an empty one is never found.
  void add(std::string content, const AddedToken& token);
  [[nodiscard]] bool is_empty() const { return tokens_.empty(); }
  /// Appends the parts of `text`, in order.
  void split(std::string_view text, std::vector<TextPart>& parts) const;

  /// Whether texts may be cut at the places of Cuts (matcher.hpp): no token lies across one, or takes blanks
  /// from its other side.
  [[nodiscard]] bool allows_cuts() const;

 private:
  struct Node {
    std::int32_t token = -1;
    std::vector<std::pair<unsigned char, std::int32_t>> next;  ///< next nodes, ascending by byte
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
