// Encodes pieces of documents as tokens; one encoder per thread.
#pragma once

#include "corpus/chat_layout.hpp"
#include "corpus/conversation.hpp"
#include "corpus/source_reader.hpp"
#include "corpus/template_keys.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::corpus {

/// Tokens of a conversation that count as targets.
enum class Loss {
  kAssistant,  ///< the assistant's messages, except those with "train": false
  kAll,        ///< everything except assistants' messages with "train": false
  kLast,       ///< the assistant's last message
};

/// Result of encoding one piece of a document.
struct EncodedDocumentPiece {
  std::vector<text::TokenId> ids;
  /// Loss mask of a conversation, one value per token; empty: all tokens count.
  std::vector<std::int32_t> mask;
  std::string fault;  ///< reason why the piece could not be encoded, or ""
  bool is_conversation = false;
  bool is_text_file = false;
  bool begins = true;
  bool ends = true;
  std::size_t source = 0;
  std::int64_t line = 0;
  std::int64_t row = 0;               ///< row of the piece in its file, see DocumentPiece::row
  Fate fate = Fate::kDrawn;           ///< token file of the piece, see DocumentPiece::fate
  std::int64_t repairs = 0;           ///< number of parts that were not UTF-8
  std::vector<std::string> unused{};  ///< keys of the row, and of its messages, that were not used
};

/// Options of encoding documents.
struct EncodingOptions {
  RowOptions row;
  Loss loss = Loss::kAssistant;
  ChatTemplate chat_template;
};

/// Encodes pieces of documents as tokens with a loss mask. One per thread.
class DocumentEncoder {
 public:
  /// `tokenizer` and `options` must outlive the encoder.
  DocumentEncoder(const text::Tokenizer& tokenizer, const EncodingOptions& options);

  /// Encodes a piece. Faults of the piece are in the result; Error for faults that concern more than this
  /// piece.
  [[nodiscard]] EncodedDocumentPiece encode(const DocumentPiece& piece);

 private:
  void encode_line(const DocumentPiece& piece, EncodedDocumentPiece& out);
  void encode_conversation(const Conversation& conversation, EncodedDocumentPiece& out);
  [[nodiscard]] std::vector<AnswerSpan> chosen(const Conversation& conversation,
                                               const std::vector<AnswerSpan>& answers) const;

  const EncodingOptions* options_;
  text::Encoder encoder_;
  TemplateKeys template_keys_;
  std::unique_ptr<ChatLayout> layout_;  ///< layout of conversations, made with the first one
};

}  // namespace sluice::corpus
