// Writes documents, piece by piece, to one of two token files.
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

/// Special tokens that documents get besides their own.
struct DocumentFrame {
  /// Token that ends each document, unless it is there already; nothing: none.
  std::optional<text::TokenId> end;
  std::optional<text::TokenId> separator;  ///< token that separates documents in a text file; nothing: none
  std::int64_t vocab_size = 0;             ///< size of the vocabulary: ids must be below it
};

/// Writes documents to the token file of training or to the held-out one.
class DocumentWriter {
 public:
  /// All arguments must outlive the writer; `holdout` may be null. Both files get a mask with the first
  /// conversation.
  DocumentWriter(const text::Tokenizer& tokenizer, const DocumentFrame& frame, StagedTokenFile& output,
                 StagedTokenFile* holdout, double holdout_share);

  /// Writes the next piece, which comes from `source` and has no fault. Error(kBadData) for an id outside the
  /// vocabulary, with the line of the file. A pair becomes two documents in one file, a pair of equal answers
  /// none.
  void write(const EncodedDocumentPiece& piece, const std::filesystem::path& source);
  [[nodiscard]] std::int64_t empty_documents() const { return empty_documents_; }

 private:
  void begin();
  [[nodiscard]] bool is_held_out() const;
  void begin_masks();
  void put_conversation(std::span<const text::TokenId> ids, std::span<const std::int32_t> mask);
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
  std::int64_t document_ = 0;      ///< number of the current document; empty ones count
  bool has_tokens_ = false;        ///< whether the current document has tokens
  bool was_split_ = false;         ///< whether the current text file was split at a separator
  text::TokenId last_ = -1;        ///< last token of the current document
  TokenWriter* writer_ = nullptr;  ///< token file of the current document
  std::int64_t empty_documents_ = 0;
  std::vector<std::int32_t> ones_;
};

}  // namespace sluice::corpus
