// Pieces of sources to tokens. One for each thread.
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

/// Which tokens of a conversation count as targets.
enum class Loss {
  kAssistant,  ///< what assistants say, but for messages with "train": false
  kAll,        ///< all but what assistants say in messages with "train": false
  kLast,       ///< the last message of an assistant
};

/// What became of a piece.
struct EncodedPiece {
  std::vector<text::TokenId> ids;
  std::vector<std::int32_t> mask;  ///< of a conversation: one value a token; else empty: all count
  std::string fault;               ///< why there are no tokens; "": there is no fault
  bool is_conversation = false;
  bool is_text_file = false;
  bool begins = true;
  bool ends = true;
  std::size_t source = 0;
  std::int64_t line = 0;
  std::int64_t row = 0;               ///< as Piece's
  Fate fate = Fate::kDrawn;           ///< as Piece's
  std::int64_t repairs = 0;           ///< parts that were no UTF-8
  std::vector<std::string> unused{};  ///< keys of the row, and of its messages, that were not used
};

struct EncodingOptions {
  LineOptions line;
  Loss loss = Loss::kAssistant;
  ChatTemplate chat_template;
};

class DocumentEncoder {
 public:
  /// `tokenizer` and `options` must outlive it.
  DocumentEncoder(const text::Tokenizer& tokenizer, const EncodingOptions& options);

  /// A fault of the piece is told in the result. Error for what is wrong with more than this piece.
  [[nodiscard]] EncodedPiece encode(const Piece& piece);

 private:
  void encode_line(const Piece& piece, EncodedPiece& out);
  void encode_conversation(const Conversation& conversation, EncodedPiece& out);
  [[nodiscard]] std::vector<AnswerSpan> chosen(const Conversation& conversation,
                                               const std::vector<AnswerSpan>& answers) const;

  const EncodingOptions* options_;
  text::Encoder encoder_;
  TemplateKeys template_keys_;
  std::unique_ptr<ChatLayout> layout_;  ///< made with the first conversation
};

}  // namespace sluice::corpus
