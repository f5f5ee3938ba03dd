#include "corpus/document_writer.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice::corpus {

DocumentWriter::DocumentWriter(const text::Tokenizer& tokenizer, const DocumentFrame& frame,
                               StagedTokenFile& output, StagedTokenFile* holdout, double holdout_share)
    : tokenizer_(&tokenizer),
      frame_(frame),
      output_(&output),
      holdout_(holdout),
      holdout_share_(holdout_share),
      draw_(0, "holdout") {}

std::optional<std::size_t> DocumentWriter::find_unknown(std::span<const text::TokenId> ids) const {
  const auto unknown = std::ranges::find_if(ids, [&](text::TokenId id) { return id >= frame_.vocab_size; });
  if (unknown == ids.end()) return std::nullopt;
  return static_cast<std::size_t>(unknown - ids.begin());
}

void DocumentWriter::refuse_unknown(std::string_view whose, text::TokenId id) const {
  fail({ExitCode::kBadData, "data.token_id"},
       "{} the token '{}', whose id is {}, but by config.json the model knows the ids 0 to {}; is "
       "tokenizer.json another model's?",
       whose, tokenizer_->decode(std::span(&id, 1), text::Specials::kKeep), id, frame_.vocab_size - 1);
}

/// Checks the ids of a piece. A row of JSON has one line number; in a text the lines before the token are
/// counted.
void DocumentWriter::require_known(const EncodedDocumentPiece& piece,
                                   const std::filesystem::path& source) const {
  if (const auto rejected = find_unknown(piece.rejected_ids))
    refuse_unknown(place_text(source, piece.line, piece.row) + "has", piece.rejected_ids[*rejected]);
  const auto unknown = find_unknown(piece.ids);
  if (!unknown) return;
  std::int64_t line = piece.line;
  if (piece.is_text_file) {
    const std::span before = std::span(piece.ids).first(*unknown);
    line += std::ranges::count(tokenizer_->decode(before, text::Specials::kKeep), '\n');
  }
  refuse_unknown(place_text(source, line, piece.row) + "has", piece.ids[*unknown]);
}

bool DocumentWriter::is_held_out() const {
  if (holdout_ == nullptr) return false;
  if (fate_ != Fate::kDrawn) return fate_ == Fate::kHeldOut;
  // A double holds 53 bits of a number in [0, 1).
  const double drawn = static_cast<double>(draw_.bits(static_cast<std::uint64_t>(document_)) >> 11) * 0x1p-53;
  return drawn < holdout_share_;
}

/// Begins a document: its first token is there, so it is not empty.
void DocumentWriter::begin() {
  writer_ = &(is_held_out() ? holdout_ : output_)->writer();
  writer_->begin_document();
  has_tokens_ = true;
}

void DocumentWriter::begin_masks() {
  output_->writer().begin_mask();
  if (holdout_ != nullptr) holdout_->writer().begin_mask();
}

void DocumentWriter::put(std::span<const text::TokenId> ids, std::span<const std::int32_t> mask) {
  if (ids.empty()) return;
  if (writer_->has_mask() && mask.empty()) {
    ones_.assign(ids.size(), 1);
    mask = ones_;
  }
  writer_->append(ids, mask);
  last_ = ids.back();
}

/// Appends tokens that every document gets, except conversations.
void DocumentWriter::put_frame(std::span<const text::TokenId> ids) {
  if (const auto unknown = find_unknown(ids)) refuse_unknown("every text gets", ids[*unknown]);
  put(ids, {});
}

/// Appends the tokens of a document, with its frame; a conversation's template has one of its own.
void DocumentWriter::put_framed(std::span<const text::TokenId> ids) {
  if (ids.empty()) return;
  if (!has_tokens_) {
    begin();
    // A text may already begin with its begin-of-text token.
    if (const auto& before = tokenizer_->frame_before(); !before.empty() && ids.front() != before.front())
      put_frame(before);
  }
  put(ids, {});
}

/// Appends a conversation as a document of its own.
void DocumentWriter::put_conversation(std::span<const text::TokenId> ids,
                                      std::span<const std::int32_t> mask) {
  begin_masks();
  begin();
  put(ids, mask);
}

void DocumentWriter::end(bool is_framed) {
  if (has_tokens_ && is_framed) {
    put_frame(tokenizer_->frame_behind());
    if (frame_.end && last_ != *frame_.end) put_frame(std::span(&*frame_.end, 1));
  }
  if (!has_tokens_) ++empty_documents_;
  has_tokens_ = false;
  last_ = -1;
  ++document_;
}

void DocumentWriter::write(const EncodedDocumentPiece& piece, const std::filesystem::path& source) {
  require_known(piece, source);
  if (piece.pair_fault == PairFault::kEqual) return;
  fate_ = piece.fate;
  std::span<const text::TokenId> ids = piece.ids;
  if (piece.is_conversation) {
    if (!ids.empty()) {
      put_conversation(ids, piece.mask);
      if (!piece.rejected_ids.empty()) {
        put_conversation(piece.rejected_ids, piece.rejected_mask);
        writer_->pair_documents();
      }
      writer_->count_answers(piece.answers);
    }
    return end(/*is_framed=*/false);
  }
  while (piece.is_text_file && frame_.separator) {
    const auto found = std::ranges::find(ids, *frame_.separator);
    if (found == ids.end()) break;
    const auto count = static_cast<std::size_t>(found - ids.begin());
    put_framed(ids.first(count));
    end(/*is_framed=*/true);
    ids = ids.subspan(count + 1);
    was_split_ = true;
  }
  put_framed(ids);
  if (!piece.ends) return;
  // After an end-of-text token at the end of a file no other document follows.
  if (has_tokens_ || !was_split_) end(/*is_framed=*/true);
  was_split_ = false;
}

}  // namespace sluice::corpus
