// Encodes pieces of documents as tokens; one encoder per thread.
#pragma once

#include "corpus/answer_ends.hpp"
#include "corpus/chat_layout.hpp"
#include "corpus/conversation.hpp"
#include "corpus/source_reader.hpp"
#include "corpus/template_keys.hpp"
#include "data/answer_counts.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::corpus {

/// Tokens of a conversation that count as targets.
enum class Loss {
  kAssistant,  ///< the assistant's messages, except those with "train": false
  kAll,        ///< everything except assistants' messages with "train": false
  kLast,       ///< the assistant's last message
};

/// What is wrong with a pair of answers.
enum class PairFault : std::uint8_t {
  kNone,
  kEqual,      ///< both are the same: nothing is preferred
  kUnevenEnd,  ///< an end token of the model is learnt with one answer and not with the other
};

/// Result of encoding one piece of a document.
struct EncodedDocumentPiece {
  std::vector<text::TokenId> ids;
  /// Loss mask of a conversation, one value per token; empty: all tokens count.
  std::vector<std::int32_t> mask;
  /// Rejected answer of a pair, beside the chosen one above; no ids: the piece is no pair.
  std::vector<text::TokenId> rejected_ids{};
  std::vector<std::int32_t> rejected_mask{};
  PairFault pair_fault = PairFault::kNone;
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
  AnswerCounts answers{};             ///< answers of a conversation that are learnt
};

/// Options of encoding documents.
struct EncodingOptions {
  RowOptions row;
  Loss loss = Loss::kAssistant;
  ChatTemplate chat_template;
  /// Function that returns the model's end tokens; called by each encoder with its first conversation.
  std::function<std::vector<text::TokenId>()> answer_ends = [] { return std::vector<text::TokenId>(); };
};

/// Encodes pieces of documents as tokens with a loss mask. One per thread.
///
/// Answers that are learnt end with an end token of the model: their own; or one that the template puts right
/// behind them, which then counts for the loss too; or, behind the last message of a conversation, the one
/// that the template would put before a user's next message, which is added.
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
  void add_rejected(const Conversation& conversation, EncodedDocumentPiece& out);
  [[nodiscard]] LaidOut lay_out(const Conversation& conversation);
  void learn_ends(const Conversation& conversation, LaidOut& laid_out, AnswerCounts& counts);
  [[nodiscard]] std::size_t end_behind(const Conversation& conversation, const AnswerSpan& answer,
                                       LaidOut& laid_out);
  [[nodiscard]] bool is_learnt(const Conversation& conversation, const std::vector<AnswerSpan>& answers,
                               std::size_t index) const;

  const EncodingOptions* options_;
  text::Encoder encoder_;
  TemplateKeys template_keys_;
  std::unique_ptr<ChatLayout> layout_;  ///< layout of conversations, made with the first one
  std::optional<AnswerEnds> ends_;      ///< end tokens of the model, read with the first conversation
  const text::Tokenizer* tokenizer_;
};

}  // namespace sluice::corpus
