// Ends of answers: the tokens with which a model stops, in the text that a chat template lays out.
#pragma once

#include "text/tokenizer.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// Whether a text is empty or whitespace.
[[nodiscard]] bool is_blank(std::string_view text);

/// Finds a model's end tokens in texts.
class AnswerEnds {
 public:
  /// `ids` are the model's end tokens; those that the tokenizer does not have are never found.
  AnswerEnds(const text::Tokenizer& tokenizer, std::span<const text::TokenId> ids);

  /// Whether a text ends with an end token, behind which only whitespace and other special tokens may follow.
  [[nodiscard]] bool is_ended(std::string_view text) const;
  /// Number of bytes at the beginning of a text that are an end token, with whitespace before it; 0 if the
  /// text begins with none.
  [[nodiscard]] std::size_t leading_bytes(std::string_view text) const;

 private:
  std::vector<std::string> ends_;
  std::vector<std::string> special_ends_;  ///< those of `ends_` that are special tokens
  std::vector<std::string> others_;        ///< special tokens that are no end tokens
};

}  // namespace sluice::corpus
