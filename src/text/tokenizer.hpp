// A tokenizer as Hugging Face publishes it: tokenizer.json; or tiktoken.model, as Kimi and Moonlight have it.
//
//   const auto tokenizer = text::Tokenizer::load("models/Qwen3-30B-A3B");
//   std::vector<text::TokenId> ids = tokenizer.encode("Call me Ishmael.");
//   std::string text = tokenizer.decode(ids);
//
// Ids equal those of the tokenizers library for the families that it is published with: byte-level BPE (Qwen,
// Llama 3, OLMoE, GPT-2) and BPE of characters with bytes for the others (Mixtral). What is not understood is
// refused by name.
#pragma once

#include "base/digest.hpp"
#include "text/added_tokens.hpp"
#include "text/bpe.hpp"
#include "text/named_tokens.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/token_decoder.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::text {

/// Whether tokens that the post-processor puts around a text, such as a begin-of-text, are added.
enum class Frame : bool { kLeaveOut, kAdd };
/// What happens to special tokens in decoded text.
enum class Specials : bool { kLeaveOut, kKeep };

/// A tokenizer. Immutable: all calls are thread-safe.
class Tokenizer {
 public:
  /// The file in a directory that load() reads: tokenizer.json, or tiktoken.model where that is missing;
  /// nothing if there is neither.
  [[nodiscard]] static std::optional<std::filesystem::path> find(const std::filesystem::path& directory);
  /// Loads the tokenizer of a directory, with the tokens that files beside it name (read_named_tokens()).
  /// Error(kBadData) if there is none, a file is broken, or it needs what is not supported.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& directory);
  /// Tokenizer from the text of tokenizer.json; messages call it `name`.
  [[nodiscard]] static Tokenizer parse(std::string_view content, const std::string& name);

  /// Encodes a text. Bytes that are not UTF-8 are read as U+FFFD. An Encoder does the same faster for many
  /// texts.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, Frame frame = Frame::kAdd) const;
  /// Decodes tokens; ids without a token are left out.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids,
                                   Specials specials = Specials::kLeaveOut) const;

  /// Id of the token with this spelling, added or in the vocabulary; nothing if there is none.
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;
  /// Largest id plus one.
  [[nodiscard]] TokenId id_count() const { return static_cast<TokenId>(texts_.size()); }
  [[nodiscard]] bool is_special(TokenId id) const;
  /// Digest of the bytes of the tokenizer's file, and of the tokens that files beside it add or change.
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// Tokens that the post-processor puts before and after a text.
  [[nodiscard]] const std::vector<TokenId>& frame_before() const { return frame_before_; }
  [[nodiscard]] const std::vector<TokenId>& frame_behind() const { return frame_behind_; }

  /// Last place in `text` where it may be cut: the tokens of both parts, the second encoded as a
  /// continuation, are those of the whole. 0 if there is none.
  [[nodiscard]] std::size_t last_cut(std::string_view text) const;

 private:
  friend class Encoder;
  friend class StreamDecoder;
  Tokenizer(const JsonNode& document, Bpe bpe, const Digest& digest, std::vector<AddedToken> added,
            const std::vector<NamedToken>& named);
  [[nodiscard]] static Tokenizer load_json(const std::filesystem::path& path);
  [[nodiscard]] static Tokenizer load_tiktoken(const std::filesystem::path& path);
  void add_tokens(const std::string& file, const std::vector<NamedToken>& named);
  void read_frame(const JsonNode& node);
  void read_template(const JsonNode& node);
  [[nodiscard]] std::vector<TokenId> template_ids(const JsonNode& node, const JsonNode& piece) const;
  [[nodiscard]] bool allows_cuts() const;
  [[nodiscard]] bool may_cut_behind_line_break(std::string_view text, std::size_t at) const;
  [[nodiscard]] bool may_cut_before_blank(std::string_view text, std::size_t at) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  DecoderRules decoder_;
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;
  std::vector<AddedToken> added_;
  std::vector<std::string> texts_;  ///< text of each token by id; empty for ids without a token
  std::vector<bool> is_special_;    ///< whether each token is special, by id
  std::vector<TokenId> frame_before_;
  std::vector<TokenId> frame_behind_;
  Digest digest_;
  bool may_cut_ = false;
};

/// Whether a text begins anew, or continues behind a cut.
enum class Continues : bool { kNo, kYes };

/// Encodes text after text, and keeps the tokens of words that it has met. One per thread; `tokenizer` must
/// outlive it.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// Appends the tokens of a text without its frame. Returns the number of parts that were not UTF-8 and were
  /// read as U+FFFD.
  std::int64_t append(std::string_view text, std::vector<TokenId>& ids, Continues continues = Continues::kNo);

  /// Appends the tokens of well-formed UTF-8, with a mark for each: 1 if any of its bytes lies in one of
  /// `spans`, [begin, end) in bytes of `text` at beginnings of characters; else 0. Error(kBadData) for a
  /// tokenizer whose pre-tokenizer changes a text.
  void append_marked(std::string_view text, std::span<const std::pair<std::size_t, std::size_t>> spans,
                     std::vector<TokenId>& ids, std::vector<std::int32_t>& marks);

 private:
  /// Place of a token: bytes of a normalized part, or of the whole text if it is an added token.
  struct Place {
    std::size_t part;
    std::size_t begin;
    std::size_t end;
  };
  void note_place(std::size_t begin, std::size_t end);
  void note_word(std::string_view text, std::string_view word, std::span<const TokenId> ids);
  [[nodiscard]] std::size_t place_in_part(std::size_t part, std::size_t at) const;

  void append_valid(std::string_view text, Continues continues, std::vector<TokenId>& ids);
  void append_normalized(std::string_view text, bool at_start, bool begins, std::vector<TokenId>& ids);

  const Tokenizer* tokenizer_;
  BpeScratch scratch_;
  Words words_;
  std::vector<TextPart> parts_;
  std::vector<TextPart> normalized_parts_;
  std::string repaired_;
  std::vector<Place>* places_ = nullptr;  ///< places of the tokens, if they are asked for; else null
  std::size_t part_ = 0;                  ///< index of the present part
};

/// Decodes token by token, and never returns half a character. All returned text together is decode() of all
/// tokens. `tokenizer` must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, Specials specials = Specials::kLeaveOut)
      : tokenizer_(&tokenizer), specials_(specials), joiner_(tokenizer.decoder_) {}

  /// Adds a token; returns the text that has become certain, often "".
  [[nodiscard]] std::string add(TokenId id);
  /// Rest of the text at the end.
  [[nodiscard]] std::string finish() { return joiner_.finish(); }

 private:
  const Tokenizer* tokenizer_;
  Specials specials_;
  TokenTextJoiner joiner_;
};

}  // namespace sluice::text
