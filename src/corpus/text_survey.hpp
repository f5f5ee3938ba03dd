// What the front of a text shows before all of it is tokenized.
#pragma once

#include "corpus/conversation.hpp"
#include "data/answer_counts.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>

namespace sluice::corpus {

/// What the front of a text shows.
struct TextSurvey {
  AnswerCounts answers;   ///< learnt answers of the conversations that were read
  bool is_whole = false;  ///< whether all of the text was read
};

/// Reads rows of JSON as tokenize() does with `row` alone, those in the first MiB of the file, and any other
/// text up to its first word. `tokenizer` is that of `model`. Error(kBadData) for a row that tokenize()
/// refuses, with its line, and for a text in which it finds no token.
[[nodiscard]] TextSurvey survey_text(const std::filesystem::path& text, const std::filesystem::path& model,
                                     const text::Tokenizer& tokenizer, const RowOptions& row = {});

}  // namespace sluice::corpus
