#include "text/added_tokens.hpp"

#include "text/unicode/unicode.hpp"

#include <algorithm>
#include <utility>

namespace sluice::text {
namespace {

bool touches_word_before(std::string_view text, std::size_t at) {
  return at > 0 && has(character_before(text, at).code, kWord);
}

bool touches_word_behind(std::string_view text, std::size_t at) {
  return at < text.size() && has(character_at(text, at).code, kWord);
}

std::size_t blanks_before(std::string_view text, std::size_t at) {
  while (at > 0) {
    const Character character = character_before(text, at);
    if (!has(character.code, kSpace)) break;
    at -= character.bytes;
  }
  return at;
}

std::size_t blanks_behind(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!has(character.code, kSpace)) break;
    at += character.bytes;
  }
  return at;
}

}  // namespace

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token;
  token.content = node.text("content");
  token.special = node.boolean("special", false);
  token.single_word = node.boolean("single_word", false);
  token.lstrip = node.boolean("lstrip", false);
  token.rstrip = node.boolean("rstrip", false);
  token.normalized = node.boolean("normalized", !token.special);
  return token;
}

std::vector<AddedToken> read_added_tokens(const JsonNode& document) {
  std::vector<AddedToken> tokens;
  if (!document.has("added_tokens")) return tokens;
  for (const JsonNode& node : document.items("added_tokens")) {
    tokens.push_back(read_added_token(node));
    tokens.back().id = static_cast<TokenId>(node.integer("id", 0, kMostIds - 1));
  }
  return tokens;
}

const std::int32_t* AddedTokenFinder::child(const Node& node, unsigned char byte) {
  const auto found =
      std::ranges::lower_bound(node.next, byte, {}, &std::pair<unsigned char, std::int32_t>::first);
  return found != node.next.end() && found->first == byte ? &found->second : nullptr;
}

void AddedTokenFinder::add(std::string content, const AddedToken& token) {
  if (content.empty()) return;
  std::int32_t at = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::int32_t* known = child(nodes_[static_cast<std::size_t>(at)], byte)) {
      at = *known;
      continue;
    }
    const auto fresh = static_cast<std::int32_t>(nodes_.size());
    auto& next = nodes_[static_cast<std::size_t>(at)].next;
    next.insert(std::ranges::lower_bound(next, byte, {}, &std::pair<unsigned char, std::int32_t>::first),
                {byte, fresh});
    nodes_.emplace_back();
    at = fresh;
  }
  std::int32_t& index = nodes_[static_cast<std::size_t>(at)].token;
  if (index >= 0) return;  // of two equal tokens the first counts
  index = static_cast<std::int32_t>(tokens_.size());
  begins_[static_cast<unsigned char>(content[0])] = true;
  tokens_.push_back(token);
  tokens_.back().content = std::move(content);
}

AddedTokenFinder::Found AddedTokenFinder::longest_at(std::string_view text, std::size_t at) const {
  Found found;
  const Node* node = &nodes_[0];
  for (std::size_t i = at; i < text.size(); ++i) {
    const std::int32_t* next = child(*node, static_cast<unsigned char>(text[i]));
    if (!next) break;
    node = &nodes_[static_cast<std::size_t>(*next)];
    if (node->token >= 0) found = {i + 1 - at, node->token};
  }
  return found;
}

void AddedTokenFinder::split(std::string_view text, std::vector<TextPart>& parts) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Found found = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at) : Found{};
    if (found.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found.token)];
    std::size_t begin = at;
    std::size_t end = at + found.bytes;
    at = end;
    if (token.single_word && (touches_word_before(text, begin) || touches_word_behind(text, end))) continue;
    if (token.lstrip) begin = std::max(blanks_before(text, begin), done);
    if (token.rstrip) end = blanks_behind(text, end);
    if (begin > done) parts.push_back({text.substr(done, begin - done)});
    parts.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done)});
}

bool AddedTokenFinder::allows_cuts() const {
  const auto lies_across = [](const std::string& content) {
    for (std::size_t i = 0; i < content.size(); ++i) {
      if (content[i] == '\n' && i + 1 < content.size()) return true;
      if (content[i] == ' ' && i > 0 && content[i - 1] != ' ') return true;
    }
    return false;
  };
  return std::ranges::none_of(tokens_, [&](const AddedToken& token) {
    const bool takes_line_break = token.lstrip && has(character_at(token.content, 0).code, kLetter | kNumber);
    const bool takes_blank =
        token.rstrip && has(character_before(token.content, token.content.size()).code, kLetter);
    return takes_line_break || takes_blank || lies_across(token.content);
  });
}

}  // namespace sluice::text
