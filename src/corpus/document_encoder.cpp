#include "corpus/document_encoder.hpp"

#include "base/error.hpp"
#include "text/unicode/unicode.hpp"

#include <algorithm>
#include <utility>

namespace sluice::corpus {

DocumentEncoder::DocumentEncoder(const text::Tokenizer& tokenizer, const EncodingOptions& options)
    : options_(&options), encoder_(tokenizer), template_keys_(options.chat_template) {}

EncodedDocumentPiece DocumentEncoder::encode(const DocumentPiece& piece) {
  EncodedDocumentPiece out;
  out.is_text_file = !piece.is_json;
  out.begins = piece.begins;
  out.ends = piece.ends;
  out.source = piece.source;
  out.line = piece.line;
  out.fate = piece.fate;
  out.row = piece.row;
  out.fault = piece.fault;
  if (!out.fault.empty()) return out;
  if (!piece.is_json) {
    out.repairs =
        encoder_.append(piece.bytes, out.ids, piece.begins ? text::Continues::kNo : text::Continues::kYes);
    return out;
  }
  try {
    encode_line(piece, out);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadData) throw;
    out.ids.clear();
    out.mask.clear();
    out.unused.clear();
    out.fault = error.what();
  }
  return out;
}

void DocumentEncoder::encode_line(const DocumentPiece& piece, EncodedDocumentPiece& out) {
  std::string bytes;
  out.repairs = text::append_repaired(bytes, piece.bytes);
  RowContent line = read_row(bytes, options_->row);
  out.is_conversation = line.conversation.has_value();
  out.unused = std::move(line.unused);
  if (line.conversation)
    encode_conversation(*line.conversation, out);
  else
    encoder_.append(line.text, out.ids);
}

void DocumentEncoder::encode_conversation(const Conversation& conversation, EncodedDocumentPiece& out) {
  if (!has_template_for(options_->chat_template, conversation))
    fail(ExitCode::kBadData,
         "is a conversation, and the model has no chat template{}: neither chat_template.jinja nor "
         "chat_template in tokenizer_config.json; --template FILE gives one, --field KEY takes the text at a "
         "key",
         options_->chat_template.tools_text.empty() ? "" : " for one without tools");
  for (std::string& key : template_keys_.unread(conversation)) out.unused.push_back(std::move(key));
  if (!layout_) layout_ = make_chat_layout(options_->chat_template);
  const bool all_are_trained =
      std::ranges::find(conversation.is_trained, false) == conversation.is_trained.end();
  const bool counts_everything = options_->loss == Loss::kAll && all_are_trained;
  const LaidOut laid_out =
      layout_->lay_out(conversation, counts_everything ? AnswerPlaces::kNone : AnswerPlaces::kFound);
  if (counts_everything) {
    encoder_.append(laid_out.text, out.ids);
    out.mask.assign(out.ids.size(), 1);
    return;
  }
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (const AnswerSpan& span : chosen(conversation, laid_out.answers))
    spans.emplace_back(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end));
  encoder_.append_marked(laid_out.text, spans, out.ids, out.mask);
  if (options_->loss == Loss::kAll)
    for (std::int32_t& value : out.mask) value = 1 - value;  // the spans were those that do not count
}

/// Answers that count for the loss; for Loss::kAll those that do not.
std::vector<AnswerSpan> DocumentEncoder::chosen(const Conversation& conversation,
                                                const std::vector<AnswerSpan>& answers) const {
  if (answers.empty()) return answers;
  const std::vector<AnswerSpan> considered =
      options_->loss == Loss::kLast ? std::vector<AnswerSpan>{answers.back()} : answers;
  const bool all_are_trained =
      std::ranges::find(conversation.is_trained, false) == conversation.is_trained.end();
  std::vector<AnswerSpan> spans;
  for (const AnswerSpan& span : considered) {
    if (span.message < 0 && !all_are_trained)
      fail(ExitCode::kBadData,
           "has messages with \"train\": false, but the chat template marks a different number of "
           "answers than there are assistant messages");
    const bool is_trained =
        span.message < 0 || conversation.is_trained[static_cast<std::size_t>(span.message)];
    if (is_trained == (options_->loss != Loss::kAll)) spans.push_back(span);
  }
  return spans;
}

}  // namespace sluice::corpus
