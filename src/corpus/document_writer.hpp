// Documents, piece by piece, into one of two token files.
#pragma once

#include "base/random.hpp"
#include "corpus/document_encoder.hpp"
#include "corpus/staged_token_file.hpp"
#include "corpus/tokenize.hpp"
#include "text/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// Tokens that documents get besides their own.
struct DocumentFrame {
  std::optional<text::TokenId> end;        ///< token that ends each document, unless it is there already
  std::optional<text::TokenId> separator;  ///< ends a document where it stands in a text file
  std::int64_t vocab_size = 0;             ///< ids must be below
};

/// Writes documents to the token file of training or to the held-out one.
class DocumentWriter {
 public:
  /// All must outlive it; `holdout` may be null. Both files get a mask with the first conversation.
  DocumentWriter(const text::Tokenizer& tokenizer, const DocumentFrame& frame, StagedTokenFile& output,
                 StagedTokenFile* holdout, double holdout_share);

  /// The next piece, of the file `source`, which has no fault. Error(kBadData) for an id that the model does
  /// not know, with the line of the file that has it.
  void write(const EncodedDocumentPiece& piece, const std::filesystem::path& source);
  [[nodiscard]] std::int64_t empty_documents() const { return empty_documents_; }

 private:
  void begin();
  [[nodiscard]] bool is_held_out() const;
  void begin_masks();
  void end(bool is_framed);
  void put(std::span<const text::TokenId> ids, std::span<const std::int32_t> mask);
  void put_framed(std::span<const text::TokenId> ids);
  void put_frame(std::span<const text::TokenId> ids);
  [[nodiscard]] std::optional<std::size_t> find_unknown(std::span<const text::TokenId> ids) const;
  [[noreturn]] void refuse_unknown(std::string_view whose, text::TokenId id) const;
  void require_known(const EncodedDocumentPiece& piece, const std::filesystem::path& source) const;

  const text::Tokenizer* tokenizer_;
  DocumentFrame frame_;
  StagedTokenFile* output_;
  StagedTokenFile* holdout_;
  double holdout_share_;
  Fate fate_ = Fate::kDrawn;  ///< fate of the current document
  RandomStream draw_;
  std::int64_t document_ = 0;      ///< the number of the one at work, empty ones counted
  bool has_tokens_ = false;        ///< whether the current document has tokens
  bool was_split_ = false;         ///< the text file at work, at a separator
  text::TokenId last_ = -1;        ///< last token of the document
  TokenWriter* writer_ = nullptr;  ///< writer of the current document
  std::int64_t empty_documents_ = 0;
  std::vector<std::int32_t> ones_;
};

}  // namespace sluice::corpus
