// Encodes a text and marks the tokens that come from given parts of it.
#include "base/error.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <functional>

namespace sluice::text {

void Encoder::note_place(std::size_t begin, std::size_t end) {
  if (places_) places_->push_back({part_, begin, end});
}

/// Notes the place of a word; `word` is part of the normalized `text`.
void Encoder::note_word(std::string_view text, std::string_view word, std::span<const TokenId> ids) {
  const std::less_equal<const char*> not_behind;
  std::size_t bytes = 0;
  for (const TokenId id : ids) bytes += tokenizer_->bpe_.bytes_of(id);
  const bool lies_in_text = not_behind(text.data(), word.data()) &&
                            not_behind(word.data() + word.size(), text.data() + text.size());
  if (!lies_in_text || bytes != word.size())
    fail(ExitCode::kBadData,
         "this tokenizer changes the text while it splits it (Metaspace, add_prefix_space, an "
         "unknown token), so the assistant's tokens cannot be told from the others; use --loss all");
  auto at = static_cast<std::size_t>(word.data() - text.data());
  for (const TokenId id : ids) {
    const std::size_t end = at + tokenizer_->bpe_.bytes_of(id);
    note_place(at, end);
    at = end;
  }
}

/// Place in a normalized part of byte `at` of the original part: the length of the normalized text before it.
std::size_t Encoder::place_in_part(std::size_t part, std::size_t at) const {
  const TextPart& whole = parts_[part];
  if (whole.id >= 0 || at == 0 || tokenizer_->normalizer_.changes_nothing()) return at;
  return tokenizer_->normalizer_.apply(whole.text.substr(0, at), {.ends = false}).size();
}

void Encoder::append_marked(std::string_view text, std::span<const std::pair<std::size_t, std::size_t>> spans,
                            std::vector<TokenId>& ids, std::vector<std::int32_t>& marks) {
  const std::size_t before = marks.size();
  std::vector<Place> places;
  places_ = &places;
  try {
    append_valid(text, Continues::kNo, ids);
  } catch (...) {
    places_ = nullptr;
    throw;
  }
  places_ = nullptr;
  marks.resize(before + places.size(), 0);
  std::size_t token = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const auto first = static_cast<std::size_t>(parts_[part].text.data() - text.data());
    const std::size_t end = first + parts_[part].text.size();
    const std::size_t part_token = token;
    while (token < places.size() && places[token].part == part) ++token;
    for (const auto& [span_begin, span_end] : spans) {
      const std::size_t begin_here = std::clamp(span_begin, first, end);
      const std::size_t end_here = std::clamp(span_end, first, end);
      if (begin_here == end_here) continue;
      const std::size_t from = place_in_part(part, begin_here - first);
      const std::size_t to = place_in_part(part, end_here - first);
      for (std::size_t i = part_token; i < token; ++i)
        if (places[i].begin < to && places[i].end > from) marks[before + i] = 1;
    }
  }
}

}  // namespace sluice::text
