#include "text/tokenizer.hpp"

#include "base/text.hpp"
#include "text/unicode/unicode.hpp"

#include <algorithm>
#include <utility>

namespace sluice::text {

std::vector<TokenId> Tokenizer::encode(std::string_view text, Frame frame) const {
  std::vector<TokenId> ids;
  if (frame == Frame::kAdd) ids = frame_before_;
  Encoder(*this).append(text, ids);
  if (frame == Frame::kAdd) ids.insert(ids.end(), frame_behind_.begin(), frame_behind_.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, Specials specials) const {
  StreamDecoder decoder(*this, specials);
  std::string text;
  for (const TokenId id : ids) text += decoder.add(id);
  return text += decoder.finish();
}

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  const auto found = std::ranges::find(added_, token, &AddedToken::content);
  return found != added_.end() ? std::optional(found->id) : bpe_.id_of(token);
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < id_count() && is_special_[static_cast<std::size_t>(id)];
}

std::int64_t Encoder::append(std::string_view text, std::vector<TokenId>& ids, Continues continues) {
  if (valid_utf8_prefix(text) == text.size()) {
    append_valid(text, continues, ids);
    return 0;
  }
  repaired_.clear();
  const std::int64_t repairs = append_repaired(repaired_, text);
  append_valid(repaired_, continues, ids);
  return repairs;
}

void Encoder::append_valid(std::string_view text, Continues continues, std::vector<TokenId>& ids) {
  parts_.clear();
  tokenizer_->raw_tokens_.split(text, parts_);
  const Normalizer& normalizer = tokenizer_->normalizer_;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const TextPart& part = parts_[i];
    const bool begins = i > 0 || continues == Continues::kNo;
    part_ = i;
    if (part.id >= 0) {
      ids.push_back(part.id);
      note_place(0, part.text.size());
    } else if (normalizer.changes_nothing()) {
      append_normalized(part.text, i == 0, begins, ids);
    } else {
      append_normalized(normalizer.apply(part.text, {.begins = begins}), i == 0, begins, ids);
    }
  }
}

void Encoder::append_normalized(std::string_view text, bool at_start, bool begins,
                                std::vector<TokenId>& ids) {
  normalized_parts_.clear();
  tokenizer_->normalized_tokens_.split(text, normalized_parts_);
  for (std::size_t i = 0; i < normalized_parts_.size(); ++i) {
    const TextPart& part = normalized_parts_[i];
    if (part.id >= 0) {
      ids.push_back(part.id);
      note_place(static_cast<std::size_t>(part.text.data() - text.data()),
                 static_cast<std::size_t>(part.text.data() - text.data()) + part.text.size());
      continue;
    }
    words_.clear();
    tokenizer_->pre_tokenizer_.split(part.text, {.at_start = at_start && i == 0, .begins = begins || i > 0},
                                     words_);
    for (const std::string_view word : words_.views) {
      const std::size_t before = ids.size();
      tokenizer_->bpe_.encode(word, scratch_, ids);
      if (places_) note_word(text, word, std::span(ids).subspan(before));
    }
  }
}

std::string StreamDecoder::add(TokenId id) {
  if (id < 0 || id >= tokenizer_->id_count()) return "";
  if (specials_ == Specials::kLeaveOut && tokenizer_->is_special(id)) return "";
  const std::string& text = tokenizer_->texts_[static_cast<std::size_t>(id)];
  return text.empty() ? "" : joiner_.add(text);
}

}  // namespace sluice::text
