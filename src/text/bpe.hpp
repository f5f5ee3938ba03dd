// Byte pair encoding (Sennrich, Haddow, Birch 2016): the model "BPE" of tokenizer.json.
#pragma once

#include "text/added_tokens.hpp"
#include "text/json_node.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::text {

/// Bytes for which a token of a byte-level vocabulary is written, one character each; nothing if it is not
/// written so.
[[nodiscard]] std::optional<std::string> bytes_of_byte_level(std::string_view token);
/// Spelling of bytes in a byte-level vocabulary.
[[nodiscard]] std::string byte_level_of(std::string_view bytes);

class Bpe;

/// Working memory of a thread that encodes with one Bpe: room for a word, and the tokens of words that it has
/// met; bounded except for the longest word.
class BpeScratch {
 public:
  BpeScratch();

 private:
  friend class Bpe;
  /// A symbol of a word, in a list with its neighbours.
  struct Symbol {
    TokenId id;           ///< token of the symbol; -1: joined to the one before
    std::int32_t before;  ///< index of the symbol before; -1: none
    std::int32_t behind;  ///< index of the symbol after; -1: none
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t at;  ///< index of the first symbol of the pair
    TokenId joined;
    [[nodiscard]] bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  static constexpr std::size_t kWordBytes = 27;
  static constexpr std::size_t kWordTokens = 8;
  struct Entry {
    std::array<char, kWordBytes> word;
    std::uint8_t word_bytes = 0;  ///< length of the word in bytes; 0: the entry is empty
    std::uint8_t token_count;
    std::array<TokenId, kWordTokens> tokens;
  };
  std::vector<TokenId> initial_;  ///< tokens of single characters, before any merge
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  std::vector<Entry> entries_;
};

/// Units of a tokenizer's words: characters, or bytes, whose tokens are written as ByteLevel writes them.
enum class WordUnits : std::uint8_t { kCharacters, kBytes };

/// A vocabulary and its merges. Immutable.
class Bpe {
 public:
  /// Reads the object "model" of a document. Error(kBadData) for another model than BPE, inconsistent ids or
  /// merges, and unsupported settings (dropout, prefixes and suffixes of words).
  Bpe(const JsonNode& node, WordUnits units);

  /// BPE over bytes by rank, as tiktoken has it: a token's rank is its id, the neighbours that join into the
  /// token of the lowest rank are joined first, and a word that is a token is that token. Error(kBadData),
  /// calling their file `name`, if a byte has no token.
  Bpe(const std::vector<std::string>& tokens, const std::string& name);

  /// Appends the tokens of a word. Characters without a token become the unknown token, or are left out if
  /// the model has none, as in the tokenizers library.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;

  /// Token with this spelling in the file; nothing if there is none.
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;
  /// Spelling of each token in the file, by id; empty for ids without a token.
  [[nodiscard]] const std::vector<std::string>& tokens() const { return tokens_; }

  /// Number of bytes of a word that a token stands for.
  [[nodiscard]] std::size_t bytes_of(TokenId id) const;

  /// Whether no merge joins two such characters and both have a token, so that words of characters may be cut
  /// between them.
  [[nodiscard]] bool may_cut_between(char32_t first, char32_t second) const;

 private:
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  struct Merge {
    std::uint64_t pair = kNoPair;  ///< ids of both tokens, first << 32 | second
    std::uint32_t rank = 0;
    TokenId joined = 0;
  };
  void read_vocabulary(const JsonNode& node);
  void read_merges(const JsonNode& node);
  void read_splits(const std::vector<std::string>& tokens);
  void add_merge(TokenId first, TokenId second, std::uint32_t rank, TokenId joined);
  void read_unknown(const JsonNode& node);
  void read_neighbours();
  [[nodiscard]] std::size_t slot_of(std::uint64_t pair) const;
  [[nodiscard]] std::optional<TokenId> character_id(std::string_view character) const;
  [[nodiscard]] const Merge* find_merge(TokenId first, TokenId second) const;

  [[nodiscard]] std::size_t cut_end(std::string_view word) const;
  void encode_cut(std::string_view part, BpeScratch& scratch, std::vector<TokenId>& out) const;
  void encode_new(std::string_view part, BpeScratch& scratch, std::vector<TokenId>& out) const;
  void take_characters(std::string_view part, std::vector<TokenId>& initial) const;
  void merge_short(std::span<const TokenId> initial, std::vector<TokenId>& out) const;
  void merge_long(BpeScratch& scratch, std::vector<TokenId>& out) const;
  void push_candidate(BpeScratch& scratch, std::int32_t first) const;

  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::optional<TokenId> unknown_;
  std::unordered_map<std::string, TokenId> ids_;    ///< ids of tokens by their spelling
  std::unordered_map<std::string, TokenId> words_;  ///< ids of tokens by the word that they spell
  std::vector<std::string> tokens_;
  std::array<TokenId, 256> byte_ids_{};  ///< id of the token of each single byte; -1: none
  std::unordered_map<char32_t, TokenId> character_ids_;
  std::vector<Merge> merges_;  ///< hash table of merges with a power of two entries, some empty
  bool may_cut_ = false;
  std::unordered_set<std::uint64_t>
      neighbours_;  ///< pairs of characters that merges join, first << 32 | second
};

}  // namespace sluice::text
