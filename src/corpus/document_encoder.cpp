#include "corpus/document_encoder.hpp"

#include "base/error.hpp"
#include "text/unicode/unicode.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace sluice::corpus {
namespace {

bool is_answer_last(const Conversation& conversation) {
  return conversation.messages->back()["role"] == "assistant";
}

void require_target(const EncodedDocumentPiece& piece, const char* answer) {
  if (piece.mask.empty() || std::find(piece.mask.begin() + 1, piece.mask.end(), 1) == piece.mask.end())
    fail(ExitCode::kBadData, "has no token that is learnt in its answer '{}'", answer);
}

}  // namespace

DocumentEncoder::DocumentEncoder(const text::Tokenizer& tokenizer, const EncodingOptions& options)
    : options_(&options),
      encoder_(tokenizer),
      template_keys_(options.chat_template),
      tokenizer_(&tokenizer) {}

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
    out.rejected_ids.clear();
    out.rejected_mask.clear();
    out.unused.clear();
    out.answers = {};
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
  if (line.rejected) add_rejected(*line.rejected, out);
}

/// Makes a pair of a piece with a chosen answer.
void DocumentEncoder::add_rejected(const Conversation& conversation, EncodedDocumentPiece& out) {
  EncodedDocumentPiece rejected;
  encode_conversation(conversation, rejected);
  require_target(out, "chosen");
  require_target(rejected, "rejected");
  if (out.ids == rejected.ids)
    out.pair_fault = PairFault::kEqual;
  else if ((out.answers.endless > 0) != (rejected.answers.endless > 0))
    out.pair_fault = PairFault::kUnevenEnd;
  out.answers += rejected.answers;
  out.rejected_ids = std::move(rejected.ids);
  out.rejected_mask = std::move(rejected.mask);
  for (std::string& key : rejected.unused)
    if (std::ranges::find(out.unused, key) == out.unused.end()) out.unused.push_back(std::move(key));
}

void DocumentEncoder::encode_conversation(const Conversation& conversation, EncodedDocumentPiece& out) {
  if (!has_template_for(options_->chat_template, conversation))
    fail({ExitCode::kBadData, "corpus.chat_template"},
         "is a conversation, and the model has no chat template{}: neither chat_template.jinja nor "
         "chat_template in tokenizer_config.json; --template FILE gives one, --field KEY takes the text at a "
         "key",
         options_->chat_template.tools_text.empty() ? "" : " for one without tools");
  for (std::string& key : template_keys_.unread(conversation)) out.unused.push_back(std::move(key));
  if (!layout_) layout_ = make_chat_layout(options_->chat_template);
  if (!ends_) ends_.emplace(*tokenizer_, options_->answer_ends());
  LaidOut laid_out = lay_out(conversation);
  learn_ends(conversation, laid_out, out.answers);
  const bool counts_all = options_->loss == Loss::kAll;
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (std::size_t i = 0; i < laid_out.answers.size(); ++i)
    if (is_learnt(conversation, laid_out.answers, i) != counts_all)
      spans.emplace_back(static_cast<std::size_t>(laid_out.answers[i].begin),
                         static_cast<std::size_t>(laid_out.answers[i].end));
  if (counts_all && spans.empty()) {
    encoder_.append(laid_out.text, out.ids);
    out.mask.assign(out.ids.size(), 1);
    return;
  }
  encoder_.append_marked(laid_out.text, spans, out.ids, out.mask);
  if (counts_all)
    for (std::int32_t& value : out.mask) value = 1 - value;  // the spans were those that do not count
}

/// Lays a conversation out with the places of its answers. Where everything counts, an answer that cannot be
/// told apart from the template's text does no harm.
LaidOut DocumentEncoder::lay_out(const Conversation& conversation) {
  const bool all_are_trained =
      std::ranges::find(conversation.is_trained, false) == conversation.is_trained.end();
  const bool counts_everything = options_->loss == Loss::kAll && all_are_trained;
  LaidOut laid_out =
      layout_->lay_out(conversation, counts_everything ? AnswerPlaces::kIfCertain : AnswerPlaces::kFound);
  const bool is_unknown =
      std::ranges::find(laid_out.answers, -1, &AnswerSpan::message) != laid_out.answers.end();
  if (is_unknown && !all_are_trained)
    fail({ExitCode::kBadData, "corpus.chat_template"},
         "has messages with \"train\": false, but the chat template marks a different number of "
         "answers than there are assistant messages");
  const std::int64_t last = std::ssize(*conversation.messages) - 1;
  const bool is_missed = counts_everything && !is_unknown && is_answer_last(conversation) &&
                         (laid_out.answers.empty() || laid_out.answers.back().message != last);
  if (is_missed) laid_out.answers.push_back({0, std::ssize(laid_out.text), last});  // its end is certain
  return laid_out;
}

/// Whether an answer counts for the loss.
bool DocumentEncoder::is_learnt(const Conversation& conversation, const std::vector<AnswerSpan>& answers,
                                std::size_t index) const {
  if (options_->loss == Loss::kLast && index + 1 != answers.size()) return false;
  const std::int64_t message = answers[index].message;
  return message < 0 || conversation.is_trained[static_cast<std::size_t>(message)];
}

/// Lengthens the answers that are learnt by the end tokens behind them, and counts them.
void DocumentEncoder::learn_ends(const Conversation& conversation, LaidOut& laid_out, AnswerCounts& counts) {
  for (std::size_t i = 0; i < laid_out.answers.size(); ++i) {
    if (!is_learnt(conversation, laid_out.answers, i)) continue;
    AnswerSpan& answer = laid_out.answers[i];
    const std::string_view text = laid_out.text;
    const auto begin = static_cast<std::size_t>(answer.begin), end = static_cast<std::size_t>(answer.end);
    // Templates may mark an answer part by part.
    if (answer.message < 0 && i + 1 < laid_out.answers.size() &&
        is_blank(text.substr(end, static_cast<std::size_t>(laid_out.answers[i + 1].begin) - end)))
      continue;
    ++counts.all;
    if (ends_->is_ended(text.substr(begin, end - begin))) continue;
    const std::size_t bytes = end_behind(conversation, answer, laid_out);
    answer.end += static_cast<std::int64_t>(bytes);
    if (bytes == 0) ++counts.endless;
  }
}

/// Number of bytes behind an answer up to the end of the end token with which they begin; 0 if there is none.
/// Behind the last message this token is added if the template would put it before a user's next message.
std::size_t DocumentEncoder::end_behind(const Conversation& conversation, const AnswerSpan& answer,
                                        LaidOut& laid_out) {
  const std::string_view behind =
      std::string_view(laid_out.text).substr(static_cast<std::size_t>(answer.end));
  if (const std::size_t bytes = ends_->leading_bytes(behind); bytes > 0) return bytes;
  const std::int64_t last = std::ssize(*conversation.messages) - 1;
  // Only blanks lie behind an answer without a known message if it is the last one: see learn_ends().
  const bool may_be_last = answer.message < 0 || answer.message == last;
  if (!may_be_last || !is_answer_last(conversation) || !is_blank(behind)) return 0;
  const std::string turn = layout_->lay_out_turn(conversation);
  const std::size_t bytes = ends_->leading_bytes(turn);
  const std::size_t blanks = behind.size();
  laid_out.text += turn.substr(0, bytes);
  return bytes == 0 ? 0 : blanks + bytes;
}

}  // namespace sluice::corpus
