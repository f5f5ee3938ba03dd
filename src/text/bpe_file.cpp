// Reads a Bpe from its file; bpe.cpp encodes with it.
#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_object.hpp"
#include "text/bpe.hpp"
#include "text/unicode/unicode.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice::text {
namespace {

using nlohmann::json;

/// Characters by which ByteLevel writes bytes: printable ones stand for themselves, others for the characters
/// from U+0100 on.
const std::array<char32_t, 256>& byte_characters() {
  static const auto table = [] {
    std::array<char32_t, 256> characters{};
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool prints = (0x21 <= byte && byte <= 0x7e) || (0xa1 <= byte && byte <= 0xac) || byte >= 0xae;
      characters[byte] = prints ? byte : next++;
    }
    return characters;
  }();
  return table;
}

/// Byte that is written as this character; -1: none.
int byte_of_character(char32_t code) {
  static const auto table = [] {
    std::array<std::int16_t, 512> bytes{};
    bytes.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte)
      bytes[byte_characters()[byte]] = static_cast<std::int16_t>(byte);
    return bytes;
  }();
  return code < table.size() ? table[code] : -1;
}

std::string byte_token(unsigned byte) { return fmt::format("<0x{:02X}>", byte); }

/// The two tokens of a merge: a list of two texts, or one text with a blank between them.
std::pair<std::string, std::string> parts_of(const JsonNode& node, const json& merge, std::size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  fail({ExitCode::kBadData, "text.tokenizer"}, "{}: merges[{}]: found {}, expected two tokens", node.name(),
       index, shown_json(merge));
}

}  // namespace

std::optional<std::string> bytes_of_byte_level(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const Character character = character_at(token, i);
    const int byte = byte_of_character(character.code);
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    i += character.bytes;
  }
  return bytes;
}

std::string byte_level_of(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(token, byte_characters()[static_cast<unsigned char>(byte)]);
  return token;
}

Bpe::Bpe(const std::vector<std::string>& tokens, const std::string& name)
    : byte_level_(true), ignore_merges_(true) {
  byte_ids_.fill(-1);
  ids_.reserve(tokens.size());
  words_.reserve(tokens.size());
  for (const std::string& bytes : tokens) {
    const auto id = static_cast<TokenId>(tokens_.size());
    tokens_.push_back(byte_level_of(bytes));
    ids_[tokens_.back()] = id;
    words_[bytes] = id;
    if (bytes.size() == 1) byte_ids_[static_cast<unsigned char>(bytes[0])] = id;
  }
  if (const auto* missing = std::ranges::find(byte_ids_, -1); missing != byte_ids_.end())
    fail({ExitCode::kBadData, "text.tokenizer"},
         "{}: found no token for the byte {}, expected one for every byte", name,
         missing - byte_ids_.begin());
  read_splits(tokens);
}

/// Adds a merge for each two tokens whose joint spelling is a third token.
void Bpe::read_splits(const std::vector<std::string>& tokens) {
  const auto for_each_split = [&](const auto& visit) {
    std::string first, second;
    for (std::size_t id = 0; id < tokens.size(); ++id)
      for (std::size_t cut = 1; cut < tokens[id].size(); ++cut) {
        first.assign(tokens[id], 0, cut);
        second.assign(tokens[id], cut);
        const auto before = words_.find(first), behind = words_.find(second);
        if (before != words_.end() && behind != words_.end())
          visit(before->second, behind->second, static_cast<TokenId>(id));
      }
  };
  std::size_t count = 0;
  for_each_split([&](TokenId, TokenId, TokenId) { ++count; });
  merges_.resize(std::bit_ceil(2 * count + 1));
  for_each_split([&](TokenId first, TokenId second, TokenId joined) {
    add_merge(first, second, static_cast<std::uint32_t>(joined), joined);
  });
}

Bpe::Bpe(const JsonNode& node, WordUnits units) : byte_level_(units == WordUnits::kBytes) {
  if (node.has("type") && node.type() != "BPE") node.refuse("type", "BPE, the one model that is supported");
  if (!node.has("type") && !node.has("merges")) node.refuse("type", "BPE");
  if (node.has("dropout") &&
      !(node.value()["dropout"].is_number() && node.value()["dropout"].get<double>() == 0))
    node.refuse("dropout", "null: it would make ids a matter of chance");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!node.text(affix, "").empty()) node.refuse(affix, "null or an empty text; others are not supported");
  byte_fallback_ = node.boolean("byte_fallback", false);
  fuse_unknown_ = node.boolean("fuse_unk", false);
  ignore_merges_ = node.boolean("ignore_merges", false);
  read_vocabulary(node);
  read_merges(node);
  read_unknown(node);
  if (!byte_level_) read_neighbours();
}

void Bpe::read_vocabulary(const JsonNode& node) {
  const JsonNode vocabulary = node.object("vocab");
  ids_.reserve(vocabulary.value().size());
  byte_ids_.fill(-1);
  for (const auto& [token, id] : vocabulary.value().items()) {
    const bool is_id =
        id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostIds);
    if (!is_id) vocabulary.refuse(token.c_str(), fmt::format("a token id from 0 to {}", kMostIds - 1));
    const auto value = id.get<TokenId>();
    ids_[token] = value;
    if (static_cast<std::size_t>(value) >= tokens_.size())
      tokens_.resize(static_cast<std::size_t>(value) + 1);
    if (std::string& known = tokens_[static_cast<std::size_t>(value)]; !std::exchange(known, token).empty())
      vocabulary.refuse(token.c_str(), "an id of its own");
    if (!byte_level_) {
      if (!token.empty() && character_at(token, 0).bytes == token.size())
        character_ids_[character_at(token, 0).code] = value;
      continue;
    }
    const std::optional<std::string> bytes = bytes_of_byte_level(token);
    if (bytes && bytes->size() == 1) byte_ids_[static_cast<unsigned char>((*bytes)[0])] = value;
    if (bytes && ignore_merges_) words_[*bytes] = value;
  }
  if (!byte_level_ && byte_fallback_)
    for (unsigned byte = 0; byte < 256; ++byte)
      if (const std::optional<TokenId> id = id_of(byte_token(byte))) byte_ids_[byte] = *id;
}

void Bpe::read_merges(const JsonNode& node) {
  const auto found = node.value().find("merges");
  if (found == node.value().end() || !found->is_array()) node.refuse("merges", "a list");
  merges_.resize(std::bit_ceil(2 * found->size() + 1));
  for (std::size_t i = 0; i < found->size(); ++i) {
    const auto [first, second] = parts_of(node, (*found)[i], i);
    const auto required_id = [&](const std::string& token) {
      if (const std::optional<TokenId> id = id_of(token)) return *id;
      fail({ExitCode::kBadData, "text.tokenizer"},
           "{}: merges[{}]: found '{}', which is not in the vocabulary", node.name(), i, printable(token));
    };
    const TokenId joined = required_id(first + second);
    add_merge(required_id(first), required_id(second), static_cast<std::uint32_t>(i), joined);
  }
}

/// Adds a merge; of two for the same pair the later one counts.
void Bpe::add_merge(TokenId first, TokenId second, std::uint32_t rank, TokenId joined) {
  const std::uint64_t pair =
      std::uint64_t{static_cast<std::uint32_t>(first)} << 32 | static_cast<std::uint32_t>(second);
  std::size_t at = slot_of(pair);
  while (merges_[at].pair != kNoPair && merges_[at].pair != pair) at = (at + 1) & (merges_.size() - 1);
  merges_[at] = {pair, rank, joined};
}

void Bpe::read_unknown(const JsonNode& node) {
  if (!node.has("unk_token")) return;
  unknown_ = id_of(node.text("unk_token"));
  // A vocabulary without the unknown token would leave characters out, until the library meets one and fails.
  if (!unknown_) node.refuse("unk_token", "a token of the vocabulary");
}

void Bpe::read_neighbours() {
  may_cut_ = byte_fallback_ && std::ranges::find(byte_ids_, -1) == byte_ids_.end();
  for (const Merge& merge : merges_) {
    if (merge.pair == kNoPair) continue;
    const std::string& first = tokens_[merge.pair >> 32];
    const std::string& second = tokens_[merge.pair & 0xffffffff];
    for (const TokenId byte : byte_ids_)
      if (byte == static_cast<TokenId>(merge.pair >> 32) ||
          byte == static_cast<TokenId>(merge.pair & 0xffffffff))
        may_cut_ = false;
    if (first.empty() || second.empty()) continue;
    neighbours_.insert(std::uint64_t{character_before(first, first.size()).code} << 32 |
                       character_at(second, 0).code);
  }
}

}  // namespace sluice::text
